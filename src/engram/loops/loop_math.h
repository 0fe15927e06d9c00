/* Functions on vectors of numbers, and the same on one: what generated loops are made of. Plain C with the vector
 * extensions of gcc and clang. A name ends in _v for vectors (vec, and mask for truth values) and in _s for one number,
 * which is computed as a vector of equal ones, so that a number's bits do not depend on its place. */
#include "runtime.h"

#if DOUBLE
#define LIBM(name) __builtin_##name
#define KIND "pd"
#define FURTHER
#else
#define LIBM(name) __builtin_##name##f
#define KIND "ps"
#define FURTHER 4, 5, 6, 7
#endif

/* The first `count` numbers of a vector (all if there are more, none below 1): loaded with zeros behind them, stored with
 * what lies behind them left alone. These are the instructions for it: what is not asked for is not touched. */
#if VBYTES == 64 && defined(__AVX512F__)
INLINE uint16_t lanes_below(int64_t count) { return count >= VL ? (1u << VL) - 1 : count > 0 ? (1u << count) - 1 : 0; }
INLINE vec load_part(const REAL *p, int64_t count) {
  vec v;
  __asm__("vmovu" KIND " %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(*(const loose *)p), "Yk"(lanes_below(count)));
  return v;
}
INLINE void store_part(REAL *p, vec v, int64_t count) {
  __asm__("vmovu" KIND " %1, %0%{%2%}" : "+m"(*(loose *)p) : "v"(v), "Yk"(lanes_below(count)));
}
#elif VBYTES == 32 && defined(__AVX__)
INLINE mask lanes_below(int64_t count) {
  const mask numbers = {0, 1, 2, 3, FURTHER};
  return numbers < (mask){0} + (WORD)count;
}
INLINE vec load_part(const REAL *p, int64_t count) {
  vec v;
  __asm__("vmaskmov" KIND " %1, %2, %0" : "=x"(v) : "m"(*(const loose *)p), "x"(lanes_below(count)));
  return v;
}
INLINE void store_part(REAL *p, vec v, int64_t count) {
  __asm__("vmaskmov" KIND " %1, %2, %0" : "+m"(*(loose *)p) : "x"(v), "x"(lanes_below(count)));
}
#else
INLINE vec load_part(const REAL *p, int64_t count) {
  REAL full[VL];
  for (int64_t l = 0; l < VL; l++) full[l] = l < count ? p[l] : 0;
  return load(full);
}
INLINE void store_part(REAL *p, vec v, int64_t count) {
  REAL full[VL];
  store(full, v);
  for (int64_t l = 0; l < VL && l < count; l++) p[l] = full[l];
}
#endif

INLINE vec where_v(mask m, vec yes, vec no) { return (vec)((m & (mask)yes) | (~m & (mask)no)); }
INLINE mask every(uint8_t truth) { return (mask){0} - (WORD)(truth != 0); }
INLINE vec truth_v(mask m) { return where_v(m, all(1), all(0)); }
INLINE vec min_v(vec a, vec b) { return where_v((a != a) | (a < b), a, b); } /* a NaN stays one, as in torch */
INLINE vec max_v(vec a, vec b) { return where_v((a != a) | (a > b), a, b); }
/* x, or the limit that it is beyond; a NaN passes through, as both comparisons are false. These are the instructions
 * for it: of where_v gcc makes six. */
#if defined(__AVX__) && (VBYTES == 32 || defined(__AVX512F__))
#define NEARER(name, x, limit) __asm__(name " %1, %2, %0" : "=v"(x) : "v"(x), "v"(all(limit)))
INLINE vec clamp_v(vec x, REAL limit) {
  NEARER("vmin" KIND, x, limit);
  NEARER("vmax" KIND, x, -limit);
  return x;
}
#else
INLINE vec clamp_v(vec x, REAL limit) {
  x = where_v(x > all(limit), all(limit), x);
  return where_v(x < all(-limit), all(-limit), x);
}
#endif

/* x = k log 2 + r: 2^k, and (exp(r) - 1) by its power series. */
typedef struct {
  vec power, rest;
} exponential;
INLINE exponential split_exp(vec x) {
#if DOUBLE
  const REAL magic = 0x1.8p52, ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
  const int digits = 52, terms = 13;
  const WORD one = 0x3ff0000000000000;
#else
  const REAL magic = 0x1.8p23f, ln2_high = 0x1.62e400p-1f, ln2_low = 0x1.7f7d1cp-20f;
  const int digits = 23, terms = 7;
  const WORD one = 0x3f800000;
#endif
  static const REAL inverse_factorial[] = {
      0, 1, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
      1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  vec shifted = x * (REAL)1.44269504088896340736 + magic; /* the low bits of `shifted` are the integer k */
  vec k = shifted - magic;
  vec r = x - k * ln2_high - k * ln2_low;
  vec sum = all(inverse_factorial[terms]);
#pragma GCC unroll 16
  for (int i = terms - 1; i >= 1; i--) sum = sum * r + inverse_factorial[i];
  return (exponential){(vec)(((mask)shifted << digits) + one), sum * r};
}
INLINE vec exp_minus_one(vec x) { /* without cancellation near 0 */
  exponential e = split_exp(x);
  return e.power * e.rest + (e.power - (REAL)1);
}
INLINE vec exp_v(vec x) { /* of half of x, squared: 2^k neither overflows nor vanishes before the result does */
  exponential e = split_exp(clamp_v(x * (REAL)0.5, DOUBLE ? 700 : 80));
  vec half = e.power * e.rest + e.power;
  return half * half;
}
INLINE vec tanh_v(vec z) {
  vec e = exp_minus_one(clamp_v(z, DOUBLE ? 20 : 10) * (REAL)2);
  return e / (e + (REAL)2);
}
INLINE vec sigmoid_v(vec z) { /* beyond the limit exp(-z) overflows, and 1 / (1 + infinity) is 0 */
  const REAL limit = DOUBLE ? 709 : 88;
  vec found = (REAL)1 / ((REAL)2 + exp_minus_one(clamp_v(-z, limit)));
  return (vec)(~(z < all(-limit)) & (mask)found); /* of where_v gcc makes two divisions */
}
INLINE vec sign_v(vec z) { return where_v(z > all(0), all(1), where_v(z < all(0), all(-1), all(0))); } /* of a NaN 0, as in torch */
INLINE vec abs_v(vec z) { return where_v(z < all(0), -z, where_v(z == all(0), all(0), z)); }
INLINE vec relu_v(vec z) { return where_v(z < all(0), all(0), z); } /* a NaN stays one, as in torch */
INLINE vec threshold_v(vec g, vec h, vec limit) { return where_v(h <= limit, all(0), g); } /* a NaN passes g */
INLINE vec leaky_v(vec z, vec slope) { return where_v(z > all(0), z, z * slope); }

#define LIFT(name)                                                   \
  INLINE vec name##_v(vec x) {                                       \
    for (int64_t l = 0; l < VL; l++) x[l] = LIBM(name)(x[l]);        \
    return x;                                                        \
  }                                                                  \
  INLINE REAL name##_s(REAL x) { return LIBM(name)(x); }
LIFT(sqrt) LIFT(log) LIFT(log1p) LIFT(log2) LIFT(expm1) LIFT(sin) LIFT(cos) LIFT(tan) LIFT(asin) LIFT(acos) LIFT(atan)
LIFT(sinh) LIFT(cosh) LIFT(erf) LIFT(floor) LIFT(ceil) LIFT(trunc)
#define LIFT2(name)                                                          \
  INLINE vec name##_v(vec x, vec y) {                                        \
    for (int64_t l = 0; l < VL; l++) x[l] = LIBM(name)(x[l], y[l]);          \
    return x;                                                                \
  }                                                                          \
  INLINE REAL name##_s(REAL x, REAL y) { return LIBM(name)(x, y); }
LIFT2(pow) LIFT2(atan2) LIFT2(fmod) LIFT2(hypot)

#define ONE(name) INLINE REAL name##_s(REAL x) { return name##_v(all(x))[0]; }
ONE(tanh) ONE(sigmoid) ONE(exp) ONE(sign) ONE(abs) ONE(relu)
INLINE REAL min_s(REAL a, REAL b) { return (a != a) | (a < b) ? a : b; }
INLINE REAL max_s(REAL a, REAL b) { return (a != a) | (a > b) ? a : b; }
INLINE REAL threshold_s(REAL g, REAL h, REAL limit) { return h <= limit ? 0 : g; }
INLINE REAL leaky_s(REAL z, REAL slope) { return z > 0 ? z : z * slope; }
#define where_s(m, yes, no) ((m) ? (yes) : (no))
#define truth_s(m) ((REAL)((m) != 0))

/* Sums in a fixed order, whatever the width of a vector: LANES partial sums side by side, then the upper half of them is
 * added to the lower one until one is left. */
#define LANES 16
#define SUMS (LANES / VL) /* vectors of partial sums */
#define EVERY_VECTOR _Pragma("GCC unroll 8") for (int v = 0; v < SUMS; v++)
INLINE REAL fold(const vec *lane) {
  REAL x[LANES];
  EVERY_VECTOR store(x + v * VL, lane[v]);
  for (int l = 0; l < 8; l++) x[l] += x[l + 8];
  for (int l = 0; l < 4; l++) x[l] += x[l + 4];
  for (int l = 0; l < 2; l++) x[l] += x[l + 2];
  return x[0] + x[1];
}
INLINE REAL sum_of(const REAL *x, int64_t n) {
  vec lane[SUMS];
  int64_t j = 0;
  EVERY_VECTOR lane[v] = all(0);
  for (; j + LANES <= n; j += LANES) EVERY_VECTOR lane[v] += load(x + j + v * VL);
  if (j < n) EVERY_VECTOR lane[v] += load_part(x + j + v * VL, n - j - v * VL);
  return fold(lane);
}
INLINE REAL dot(const REAL *restrict x, const REAL *restrict y, int64_t n) {
  vec lane[SUMS];
  int64_t j = 0;
  EVERY_VECTOR lane[v] = all(0);
  for (; j + LANES <= n; j += LANES) EVERY_VECTOR lane[v] += load(x + j + v * VL) * load(y + j + v * VL);
  if (j < n)
    EVERY_VECTOR lane[v] += load_part(x + j + v * VL, n - j - v * VL) * load_part(y + j + v * VL, n - j - v * VL);
  return fold(lane);
}

/* What a generated loop is given. Row i of step t is row offsets[t] + i of every array. */
typedef struct {
  const engram_runtime *rt;
  int64_t start, end, batch, blocks, most_rows; /* steps, rows, pieces of the batch, and rows of a piece */
  const int64_t *alive, *offsets;    /* rows alive at each step, and the first row of each step */
  int64_t steps;                     /* of the whole sequence */
  int reverse, backwards;
  const int64_t *n; /* sizes */
  const REAL *s;    /* numbers */
  const int64_t *strides; /* NULL, or for each array two: matrices are then read as they lie, for few rows and steps */
  void *const *a;   /* arrays, starts, carried values, shared values, panels: in the order in which the loop names them */
} loop_call;

INLINE int64_t rows_alive(const loop_call *c, int64_t t, int64_t first, int64_t rows) {
  int64_t m = (t < 0 || t >= c->steps ? 0 : c->alive[t]) - first;
  return m < 0 ? 0 : m > rows ? rows : m;
}
/* out = rows . B for few rows, with B (depth x columns) as it lies in memory: to pack it would cost as much as this. */
INLINE void multiply_few(int64_t m, int64_t depth, int64_t columns, const REAL *rows, int64_t stride, const REAL *b,
                         int64_t row, int64_t column, REAL *out, int64_t out_stride) {
  for (int64_t i = 0; i < m; i++, rows += stride, out += out_stride)
    if (row == 1) /* columns lie in one piece each */
      for (int64_t c = 0; c < columns; c++) {
        const REAL *at = b + c * column;
        vec sum = {0}, more = {0};
        int64_t k = 0;
        for (; k + 2 * VL <= depth; k += 2 * VL)
          sum += load(rows + k) * load(at + k), more += load(rows + k + VL) * load(at + k + VL);
        sum += more;
        REAL total = 0;
        for (int64_t l = 0; l < VL; l++) total += sum[l];
        for (; k < depth; k++) total += rows[k] * at[k];
        out[c] = total;
      }
    else {
      for (int64_t c = 0; c < columns; c++) out[c] = 0;
      for (int64_t k = 0; k < depth; k++)
        for (int64_t c = 0; c < columns; c++) out[c] += rows[k] * b[k * row + c * column];
    }
}

/* Rows times matrix number k. */
INLINE void times(const loop_call *c, int k, int64_t m, int64_t depth, int64_t columns, const REAL *rows, int64_t stride,
                  REAL *out, int64_t out_stride) {
  if (c->strides)
    multiply_few(m, depth, columns, rows, stride, c->a[k], c->strides[2 * k], c->strides[2 * k + 1], out, out_stride);
  else
    c->rt->multiply(m, depth, columns, rows, stride, c->a[k], out, out_stride, 0);
}

INLINE int64_t align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Cut the batch into even blocks, at least one for each thread. No row depends on another, so the cut changes no result. */
INLINE int run_blocks(loop_call *c, int threads, work_function *work) {
  c->blocks = (c->batch + c->most_rows - 1) / c->most_rows;
  if (threads > 1 && c->blocks < threads) c->blocks = c->batch < threads ? c->batch : threads;
  if (threads > 1) c->blocks = (c->blocks + threads - 1) / threads * threads;
  if (c->blocks > c->batch) c->blocks = c->batch;
  return c->rt->share(c->blocks, threads, work, c);
}
