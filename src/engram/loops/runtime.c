/* The runtime library: one per dtype, shared by every compiled loop, so that there is one pool of threads and the
 * products have the same bits wherever they are asked for. Plain C with the vector extensions of gcc and clang, no
 * header of torch or Python; Python calls product, pack_pieces, packed_product, packed_width, column_sums and what is for
 * several models at once through ctypes, generated loops call what runtime() gives them.
 */
#include "loop_math.h"
#include "pool.h"
#include "product.h"

static void pack(const REAL *b, int64_t row, int64_t column, int64_t depth, int64_t columns, REAL *panels) {
  pack_pieces(depth, columns, b, row, column, panels);
}

const engram_runtime *runtime(void) {
  static const engram_runtime functions = {.vector = NR, .most_rows = MOST_ROWS, .packed_width = packed_width,
                                           .pack = pack, .multiply = multiply, .share = share};
  return &functions;
}

/* The same for several models that train as one: each member's work is done by one thread, in the order in which it is
 * done alone, so its bits depend neither on the others nor on how many there are. */
typedef int loop_function(void *call, int threads);
typedef struct { /* the arguments of product() */
  int64_t m, n, k, add;
  const REAL *a;
  int64_t a_row, a_column;
  REAL *out;
  int64_t row, column;
  const REAL *bias, *b;
  int64_t b_row, b_column;
} product_arguments;
typedef struct { /* those of column_sums() */
  int64_t count, width;
  const REAL *rows;
  REAL *sums;
} sum_arguments;
typedef struct { /* of each member: a call of a loop (or none), then so many products and sums, one after the other */
  loop_function *run;
  char *calls;
  int64_t size, products, sums;
  const product_arguments *product;
  const sum_arguments *sum;
} several;

static int run_one(const void *context, int64_t i) {
  const several *c = context;
  int failed = c->run ? c->run(c->calls + i * c->size, 1) : 0;
  for (int64_t k = 0; k < c->products; k++) {
    const product_arguments *p = c->product + i * c->products + k;
    failed |= product(p->m, p->n, p->k, 1, (int)p->add, p->a, p->a_row, p->a_column, p->out, p->row, p->column, p->bias,
                      p->b, p->b_row, p->b_column);
  }
  for (int64_t k = 0; k < c->sums; k++) {
    const sum_arguments *s = c->sum + i * c->sums + k;
    failed |= column_sums(s->count, s->width, 1, s->rows, NULL, s->sums);
  }
  return failed;
}

int run_several(int64_t members, int threads, const several *work) { return share(members, threads, run_one, work); }

/* The cross entropy of each member's rows of scores, averaged over its rows, and the softmax of every row. A class that
 * is out of range fails. */
typedef struct {
  int64_t rows, classes;
  const REAL *scores;
  const int64_t *targets;
  REAL *softmax, *losses;
} entropy_call;

static int entropy_one(const void *context, int64_t i) {
  const entropy_call *c = context;
  const int64_t classes = c->classes, count = c->rows * classes;
  const REAL *scores = c->scores + i * count;
  const int64_t *targets = c->targets + i * c->rows;
  REAL *const softmax = c->softmax + i * count;
  for (int64_t r = 0; r < c->rows; r++) {
    const REAL *row = scores + r * classes;
    REAL most = row[0];
    for (int64_t j = 1; j < classes; j++) most = max_s(most, row[j]);
    for (int64_t j = 0; j < classes; j++) softmax[r * classes + j] = row[j] - most;
  }
  double total = 0;
  for (int64_t r = 0; r < c->rows; r++) { /* before exp takes their place */
    if (targets[r] < 0 || targets[r] >= classes) return 2;
    total -= softmax[r * classes + targets[r]];
  }
  int64_t j = 0;
  for (; j + VL <= count; j += VL) store(softmax + j, exp_v(load(softmax + j)));
  for (; j < count; j++) softmax[j] = exp_s(softmax[j]);
  for (int64_t r = 0; r < c->rows; r++) {
    REAL *row = softmax + r * classes, sum = 0;
    for (int64_t k = 0; k < classes; k++) sum += row[k];
    total += LIBM(log)(sum);
    for (int64_t k = 0; k < classes; k++) row[k] /= sum;
  }
  c->losses[i] = (REAL)(total / (double)c->rows);
  return 0;
}

int entropies(int64_t count, int threads, int64_t rows, int64_t classes, const REAL *scores, const int64_t *targets,
              REAL *softmax, REAL *losses) {
  entropy_call c = {rows, classes, scores, targets, softmax, losses};
  return share(count, threads, entropy_one, &c);
}

/* Its gradient: (softmax - [this is the class]) times the gradient of the member's loss over its rows. */
typedef struct {
  int64_t rows, classes;
  const REAL *softmax;
  const int64_t *targets;
  const REAL *gradients;
  REAL *out;
} entropy_gradient_call;

static int entropy_gradient_one(const void *context, int64_t i) {
  const entropy_gradient_call *c = context;
  const int64_t count = c->rows * c->classes;
  const REAL scale = c->gradients[i] / (REAL)c->rows, *softmax = c->softmax + i * count;
  REAL *const out = c->out + i * count;
  for (int64_t j = 0; j < count; j++) out[j] = softmax[j] * scale;
  for (int64_t r = 0; r < c->rows; r++) out[r * c->classes + c->targets[i * c->rows + r]] -= scale;
  return 0;
}

int entropy_gradients(int64_t count, int threads, int64_t rows, int64_t classes, const REAL *softmax,
                      const int64_t *targets, const REAL *gradients, REAL *out) {
  entropy_gradient_call c = {rows, classes, softmax, targets, gradients, out};
  return share(count, threads, entropy_gradient_one, &c);
}
