/* The recurrence h_t = act(drive_t + gate_t (W h_{t-1})) and its gradient, for one real type. Without a gate it is the
 * additive one. Rows of `start` from number `given` on hold W h_0 in place of h_0.
 *
 * Compiled at first use by engram/kernels/_build.py, once with DOUBLE=0 and once with DOUBLE=1; plain C
 * with the vector extensions of gcc and clang, no header of torch or Python, called through ctypes.
 *
 * Why it is fast. W does not change over the T steps, so it is packed once into panels of NR columns and stays
 * in the second-level cache. The rows of a batch never meet, so each block of at most MR rows runs through all
 * of time alone: threads share nothing and wait for nobody, and the state lives in the first-level cache.
 *
 * Memory. `states` comes in holding the drive and goes out holding the states; of the forward pass `gate` goes out
 * holding W h_{t-1}. Step t owns the rows
 * offset[t] .. offset[t]+size[t]; sizes never grow with t (a PackedSequence), and are all `batch` if dense.
 */
#include "pool.h"
#include "product.h"

enum { IDENTITY, TANH, RELU, SIGMOID, MODRELU };

INLINE vec pick(mask m, vec yes, vec no) { return (vec)((m & (mask)yes) | (~m & (mask)no)); }

/* exp(x) - 1 without cancellation: x = k log 2 + r, then 2^k (exp(r) - 1) + (2^k - 1). */
INLINE vec exp_minus_one(vec x) {
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
  vec power = (vec)(((mask)shifted << digits) + one);
  vec sum = all(inverse_factorial[terms]);
#pragma GCC unroll 16
  for (int i = terms - 1; i >= 1; i--) sum = sum * r + inverse_factorial[i];
  return power * (sum * r) + (power - (REAL)1);
}

INLINE vec clamp(vec x, REAL limit) { /* a NaN passes through: both comparisons are false */
  x = pick(x > all(limit), all(limit), x);
  return pick(x < all(-limit), all(-limit), x);
}

INLINE vec activate(int act, vec z, vec bias) {
  const vec zero = {0};
  switch (act) {
  case TANH: {
    vec e = exp_minus_one(clamp(z, DOUBLE ? 20 : 10) * (REAL)2);
    return e / (e + (REAL)2);
  }
  case RELU: return pick(z < zero, zero, z);
  case SIGMOID: { /* beyond the limit exp(-z) overflows, and 1 / (1 + infinity) is 0 */
    const REAL limit = DOUBLE ? 709 : 88;
    return pick(z < all(-limit), zero, (REAL)1 / ((REAL)2 + exp_minus_one(clamp(-z, limit))));
  }
  case MODRELU: {
    vec m = pick(z < zero, -z, z) + bias;
    m = pick(m < zero, zero, m);
    return pick(z > zero, m, pick(z < zero, -m, z));
  }
  default: return z;
  }
}

/* act'(z) times g, told from h = act(z) alone. */
INLINE vec pull_back(int act, vec g, vec h) {
  const vec zero = {0};
  switch (act) {
  case TANH: return g * ((REAL)1 - h * h);
  case RELU: return pick(h <= zero, zero, g); /* a NaN passes the gradient, as in torch */
  case SIGMOID: return g * (h * ((REAL)1 - h));
  case MODRELU: return pick(h != zero, g, zero);
  default: return g;
  }
}

/* Everything one call needs; a block of rows first .. first+rows is run by one thread from end to end. */
typedef struct {
  int64_t steps, batch, hidden, width;
  const int64_t *sizes; /* rows alive at each step, or NULL: all of them */
  const int64_t *offsets;
  int64_t given;
  int act, reverse;
  const REAL *panels, *start, *mod; /* mod may be NULL, and so may gate */
  REAL *gate;
  REAL *states, *final;
  const REAL *grad_states, *grad_final; /* either may be NULL */
  REAL *dz, *grad_start;
  int64_t blocks;
} call;

static int alive(const call *c, int64_t t, int64_t first, int rows) {
  int64_t n = (c->sizes ? c->sizes[t] : c->batch) - first;
  return n < 0 ? 0 : n > rows ? rows : (int)n;
}
static int64_t row_of(const call *c, int64_t t) { return c->offsets ? c->offsets[t] : t * c->batch; }

static void scale(REAL *restrict values, const REAL *restrict factors, int64_t count) {
  for (int64_t j = 0; j < count; j++) values[j] *= factors[j];
}

/* As scale, and the factors become what the values were. */
static void scale_and_keep(REAL *restrict values, REAL *restrict factors, int64_t count) {
  for (int64_t j = 0; j < count; j++) {
    REAL value = values[j];
    values[j] = value * factors[j], factors[j] = value;
  }
}

static int forward_block(const call *c, int64_t first, int rows) {
  const int64_t H = c->hidden, P = c->width;
  int64_t needed = (2 * rows + 1) * P + NR;
  REAL *memory = reserve(needed);
  if (!memory) return 1;
  memset(memory, 0, (size_t)needed * sizeof(REAL));
  REAL *now = memory, *next = memory + rows * P, *mod = memory + 2 * rows * P;
  int begun = 0; /* rows that have taken their first step */
  for (int i = 0; i < rows; i++) memcpy(now + i * P, c->start + (first + i) * H, H * sizeof(REAL));
  if (c->mod) memcpy(mod, c->mod, H * sizeof(REAL));
  for (int64_t s = 0; s < c->steps; s++) {
    int64_t t = c->reverse ? c->steps - 1 - s : s;
    int m = alive(c, t, first, rows);
    if (!m) continue;
    multiply(m, H, P, now, c->panels, next);
    for (; begun < m; begun++)
      if (first + begun >= c->given) memcpy(next + begun * P, c->start + (first + begun) * H, H * sizeof(REAL));
    int64_t row = (row_of(c, t) + first) * H;
    for (int i = 0; i < m; i++) {
      REAL *h = next + i * P, *out = c->states + row + i * H;
      int64_t j = 0;
      if (c->gate) scale_and_keep(h, c->gate + row + i * H, H);
#define FORWARD(ACT)                                                                                            \
  for (; j + VL <= H; j += VL) {                                                                                \
    vec v = activate(ACT, load(h + j) + load(out + j), load(mod + j));                                          \
    store(h + j, v), store(out + j, v);                                                                         \
  }
      switch (c->act) {
      case TANH: FORWARD(TANH) break;
      case RELU: FORWARD(RELU) break;
      case SIGMOID: FORWARD(SIGMOID) break;
      case MODRELU: FORWARD(MODRELU) break;
      default: FORWARD(IDENTITY)
      }
      if (j < H) { /* the last, incomplete vector */
        REAL tail[VL];
        memset(tail, 0, sizeof tail);
        memcpy(tail, out + j, (H - j) * sizeof(REAL));
        store(tail, activate(c->act, load(h + j) + load(tail), load(mod + j)));
        memcpy(out + j, tail, (H - j) * sizeof(REAL));
        memcpy(h + j, tail, (H - j) * sizeof(REAL));
      }
    }
    if (m == rows) {
      REAL *swap = now;
      now = next, next = swap;
    } else memcpy(now, next, m * P * sizeof(REAL)); /* rows that have ended, or not begun, keep their state */
  }
  for (int i = 0; i < rows; i++) memcpy(c->final + (first + i) * H, now + i * P, H * sizeof(REAL));
  free(memory);
  return 0;
}

static int backward_block(const call *c, int64_t first, int rows) {
  const int64_t H = c->hidden, P = c->width;
  REAL *memory = reserve(2 * rows * P);
  if (!memory) return 1;
  memset(memory, 0, (size_t)(2 * rows * P) * sizeof(REAL));
  REAL *dz = memory, *dh = memory + rows * P;
  int begun = 0; /* rows whose gradient has set out */
  for (int64_t s = 0; s < c->steps; s++) {
    int64_t t = c->reverse ? s : c->steps - 1 - s;
    int m = alive(c, t, first, rows);
    if (!m) continue;
    multiply(m, H, P, dz, c->panels, dh);
    for (; begun < m; begun++)
      if (c->grad_final)
        memcpy(dh + begun * P, c->grad_final + (first + begun) * H, H * sizeof(REAL));
    int64_t row = (row_of(c, t) + first) * H;
    for (int i = 0; i < m; i++) {
      const REAL *h = c->states + row + i * H, *g = c->grad_states ? c->grad_states + row + i * H : NULL;
      REAL *d = dh + i * P, *out = c->dz + row + i * H, *keep = dz + i * P;
      int64_t j = 0;
#define BACKWARD(ACT)                                                                                           \
  for (; j + VL <= H; j += VL) {                                                                                \
    vec v = load(d + j), state = load(h + j);                                                                   \
    if (g) v += load(g + j);                                                                                    \
    v = pull_back(ACT, v, state);                                                                               \
    store(keep + j, v), store(out + j, v);                                                                      \
  }
      switch (c->act) {
      case TANH: BACKWARD(TANH) break;
      case RELU: BACKWARD(RELU) break;
      case SIGMOID: BACKWARD(SIGMOID) break;
      case MODRELU: BACKWARD(MODRELU) break;
      default: BACKWARD(IDENTITY)
      }
      if (j < H) {
        REAL state[VL], grad[VL];
        memset(state, 0, sizeof state), memset(grad, 0, sizeof grad);
        memcpy(state, h + j, (H - j) * sizeof(REAL));
        if (g) memcpy(grad, g + j, (H - j) * sizeof(REAL));
        vec v = pull_back(c->act, load(d + j) + load(grad), load(state));
        store(grad, v);
        memcpy(out + j, grad, (H - j) * sizeof(REAL)), memcpy(keep + j, grad, (H - j) * sizeof(REAL));
      }
      if (c->gate) scale(keep, c->gate + row + i * H, H); /* what goes on to W is gate dz */
    }
  }
  multiply(rows, H, P, dz, c->panels, dh);
  for (int i = 0; i < rows; i++)
    if (first + i >= c->given) memcpy(dh + i * P, dz + i * P, H * sizeof(REAL));
  if (c->steps)
    for (int i = 0; i < rows; i++) memcpy(c->grad_start + (first + i) * H, dh + i * P, H * sizeof(REAL));
  free(memory);
  return 0;
}

static int forward_rows(const void *context, int64_t b) {
  const call *c = context;
  int64_t first = c->batch * b / c->blocks, last = c->batch * (b + 1) / c->blocks;
  return forward_block(c, first, (int)(last - first));
}

static int backward_rows(const void *context, int64_t b) {
  const call *c = context;
  int64_t first = c->batch * b / c->blocks, last = c->batch * (b + 1) / c->blocks;
  return backward_block(c, first, (int)(last - first));
}

/* Cut the batch into even blocks of at most MR rows, at least one for each thread. Rows never meet, so how they are
 * cut changes nothing. */
static int run(call *c, int threads, work_function *work) {
  if ((double)c->steps * (double)c->batch * (double)c->hidden * (double)c->hidden < SMALL) threads = 1;
  c->blocks = (c->batch + MR - 1) / MR;
  if (threads > 1) c->blocks = least((c->blocks + threads - 1) / threads * threads, c->batch);
  return share(c->blocks, threads, work, c);
}

int additive_forward(int64_t steps, int64_t batch, int64_t hidden, const int64_t *sizes, const int64_t *offsets,
                     int64_t given, int act, int reverse, int threads, const REAL *weight, const REAL *start,
                     const REAL *mod, REAL *gate, REAL *states, REAL *final) {
  REAL *panels = pack((matrix){weight, 1, hidden}, hidden, hidden); /* W transposed: rows of states times it */
  if (!panels) return 1;
  call c = {.steps = steps, .batch = batch, .hidden = hidden, .width = padded(hidden), .sizes = sizes,
            .offsets = offsets, .act = act, .reverse = reverse, .given = given, .panels = panels, .start = start,
            .mod = mod, .gate = gate, .states = states, .final = final};
  int failed = run(&c, threads, forward_rows);
  free(panels);
  return failed;
}

int additive_backward(int64_t steps, int64_t batch, int64_t hidden, const int64_t *sizes, const int64_t *offsets,
                      int64_t given, int act, int reverse, int threads, const REAL *weight, const REAL *states,
                      const REAL *grad_states, const REAL *grad_final, const REAL *gate, REAL *dz,
                      REAL *grad_start, REAL *grad_bias, REAL *grad_mod) {
  REAL *panels = pack((matrix){weight, hidden, 1}, hidden, hidden);
  if (!panels) return 1;
  call c = {.steps = steps, .batch = batch, .hidden = hidden, .width = padded(hidden), .sizes = sizes,
            .offsets = offsets, .act = act, .reverse = reverse, .given = given, .panels = panels, .gate = (REAL *)gate,
            .states = (REAL *)states, .grad_states = grad_states, .grad_final = grad_final, .dz = dz,
            .grad_start = grad_start};
  int failed = run(&c, threads, backward_rows);
  free(panels);
  int64_t rows = !steps ? 0 : sizes ? offsets[steps - 1] + sizes[steps - 1] : steps * batch;
  failed |= column_sums(rows, hidden, threads, dz, NULL, grad_bias);
  if (act == MODRELU) failed |= column_sums(rows, hidden, threads, dz, states, grad_mod);
  return failed;
}
