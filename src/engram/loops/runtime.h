/* What every loop in C stands on: the real type, vectors of it, and the functions of the runtime library.
 *
 * There is one runtime library per dtype (runtime.c) with the pool of threads and the products. A generated loop is a
 * library of its own: it includes this header, and its caller hands it the pointer that runtime() returned. Both are
 * compiled with DOUBLE=0 or DOUBLE=1. Generated code must take the width of panels from the struct, never from VBYTES:
 * the runtime may have come in the wheel, and a loop may have been compiled here for a wider processor.
 */
#ifndef ENGRAM_RUNTIME_H
#define ENGRAM_RUNTIME_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef VBYTES /* bytes of a vector */
#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX__)
#define VBYTES 32
#else
#define VBYTES 16
#endif
#endif

#if DOUBLE
#define REAL double
#define WORD int64_t
#else
#define REAL float
#define WORD int32_t
#endif
#define VL ((int)(VBYTES / sizeof(REAL)))
#define INLINE static inline __attribute__((always_inline))

typedef REAL vec __attribute__((vector_size(VBYTES)));
typedef WORD mask __attribute__((vector_size(VBYTES)));
typedef REAL loose __attribute__((vector_size(VBYTES), aligned(sizeof(REAL)), may_alias));

INLINE vec load(const REAL *p) { return (vec)*(const loose *)p; }
INLINE void store(REAL *p, vec v) { *(loose *)p = (loose)v; }
INLINE vec all(REAL x) { return x - (vec){0}; }

typedef int work_function(const void *context, int64_t i); /* not zero: it failed */

typedef struct {
  int64_t vector;    /* panels are this many columns wide */
  int64_t most_rows; /* of a block of rows that one thread takes through time */

  /* `columns`, rounded up to whole panels. */
  int64_t (*packed_width)(int64_t columns);

  /* Pack B (depth x columns), whose entry (i, j) is b[i * row + j * column], into depth * packed_width(columns)
   * numbers at `panels`; fastest if those begin at a multiple of 64 bytes. */
  void (*pack)(const REAL *b, int64_t row, int64_t column, int64_t depth, int64_t columns, REAL *panels);

  /* out[i * out_stride + c] = (add ? what is there : 0) + sum over k of rows[i * stride + k] B[k][c]
   * for every i < m and c < packed_width(columns): a row of `out` has room for that many. The columns beyond B's are
   * the row times zero: 0, or NaN where the row is not finite. `out` and `rows` do not overlap. The bits of a row do
   * not depend on m. */
  void (*multiply)(int64_t m, int64_t depth, int64_t columns, const REAL *rows, int64_t stride, const REAL *panels,
                   REAL *out, int64_t out_stride, int add);

  /* work(context, i) once for every i < count, on at most `threads` threads; not zero if any call returned that. */
  int (*share)(int64_t count, int threads, work_function *work, const void *context);
} engram_runtime;

#endif
