/* Products of matrices whose bits depend on the matrices alone, not on the number of threads.
 *
 * out (M x N) = A (M x K) . B (K x N). B is packed into panels of NR columns, PIECE rows of K at a time, so that what
 * the innermost loop reads lies one after the other in the cache. Every number of `out` is the sum, in this order, of
 * its pieces of K, each summed in the order of k by fused (or, on old processors, separate) multiply and add. Threads
 * share out the tiles of `out`, never a sum.
 */
#include "runtime.h"

#ifndef MR /* rows of a tile: as many as the registers hold */
#define MR (VBYTES == 64 ? 12 : 6)
#endif
#define MOST_MR 12

#define NR (2 * VL)
#define PIECE 512     /* with fewer, sums are put away and taken up again more often: 2 to 3 % at 512 units */
#define MOST_ROWS 48  /* whole tiles of 6 and of 12; matters where B is larger than the last cache */
#define SMALL 1000000 /* so few multiplications take less time than waking a thread */

#if defined(__x86_64__) && (VBYTES == 16 || (VBYTES == 32 && defined(__AVX__)) || defined(__AVX512F__))
#define KEEP(v) __asm__("" : "+v"(v)) /* in a register: gcc would read it again for each of a few rows */
#else
#define KEEP(v) (void)(v)
#endif

/* sum[i][..] = row i . so many panels, which lie `apart`, for m rows whose numbers lie `step` apart; m and panels are
 * constants wherever it is inlined. */
INLINE void dot_panels(const int m, const int panels, int64_t depth, const REAL *rows, int64_t stride, int64_t step,
                       const REAL *panel, int64_t apart, vec sum[][2 * panels]) {
#pragma GCC unroll 16
  for (int i = 0; i < m; i++)
#pragma GCC unroll 16
    for (int p = 0; p < 2 * panels; p++) sum[i][p] = (vec){0};
  for (int64_t k = 0; k < depth; k++, rows += step, panel += NR)
#pragma GCC unroll 16
    for (int p = 0; p < panels; p++) {
      vec left = load(panel + p * apart), right = load(panel + p * apart + VL);
      KEEP(left);
      KEEP(right);
#pragma GCC unroll 16
      for (int i = 0; i < m; i++) {
        vec x = all(rows[i * stride]);
        sum[i][2 * p] += x * left;
        sum[i][2 * p + 1] += x * right;
      }
    }
}

/* One tile: out = base + m rows times panels; kept out of line so that the compiler gives it all its registers. */
#define TILE(NAME, M, PANELS)                                                                                   \
  static __attribute__((noinline)) void NAME(int64_t depth, const REAL *rows, int64_t stride, int64_t step,     \
                                             const REAL *panel, int64_t apart, const REAL *base,                \
                                             int64_t base_stride, REAL *out, int64_t out_stride) {              \
    vec sum[M][2 * PANELS];                                                                                     \
    dot_panels(M, PANELS, depth, rows, stride, step, panel, apart, sum);                                        \
    for (int i = 0; i < M; i++)                                                                                 \
      for (int p = 0; p < 2 * PANELS; p++)                                                                      \
        store(out + i * out_stride + p * VL, load(base + i * base_stride + p * VL) + sum[i][p]);                \
  }
TILE(tile_1, 1, 1) TILE(tile_2, 2, 1) TILE(tile_3, 3, 1) TILE(tile_4, 4, 1) TILE(tile_5, 5, 1) TILE(tile_6, 6, 1)
TILE(tile_7, 7, 1) TILE(tile_8, 8, 1) TILE(tile_9, 9, 1) TILE(tile_10, 10, 1) TILE(tile_11, 11, 1)
TILE(tile_12, 12, 1)

typedef void tile(int64_t, const REAL *, int64_t, int64_t, const REAL *, int64_t, const REAL *, int64_t, REAL *,
                  int64_t);
static tile *const TILES[MOST_MR + 1] = {0,      tile_1, tile_2, tile_3,  tile_4,  tile_5, tile_6,
                                         tile_7, tile_8, tile_9, tile_10, tile_11, tile_12};
_Static_assert(MR >= 1 && MR <= MOST_MR, "a tile has 1 to 12 rows");

/* Few rows have few sums, which wait for each other: they take several panels at once. */
#define FEW 2
#define MOST_PANELS 4
TILE(wide_1, 1, 4) TILE(wide_2, 2, 2)
static tile *const WIDE[FEW + 1] = {0, wide_1, wide_2};
static const int PANELS[FEW + 1] = {0, 4, 2};
static const REAL ZERO[MOST_PANELS * NR];

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t padded(int64_t n) { return (n + NR - 1) / NR * NR; }

static REAL *reserve(int64_t count) { /* aligned to a vector */
  return aligned_alloc(64, ((size_t)count * sizeof(REAL) + 64) / 64 * 64);
}

/* A matrix in memory: the entry (i, j) is at[i * row + j * column]. */
typedef struct {
  const REAL *at;
  int64_t row, column;
} matrix;

/* Rows from .. from+depth of B, columns first .. first+NR: one panel, zero beyond the last column. */
static void pack_panel(matrix b, int64_t from, int64_t depth, int64_t first, int64_t columns, REAL *panel) {
  int64_t width = least(NR, columns - first);
  if (width < NR) memset(panel, 0, (size_t)(depth * NR) * sizeof(REAL));
  const REAL *corner = b.at + from * b.row + first * b.column;
  if (b.column == 1 && width == NR)
    for (int64_t k = 0; k < depth; k++)
      store(panel + k * NR, load(corner + k * b.row)), store(panel + k * NR + VL, load(corner + k * b.row + VL));
  else
    for (int64_t c = 0; c < width; c++)
      for (int64_t k = 0; k < depth; k++) panel[k * NR + c] = corner[k * b.row + c * b.column];
}

/* out (m x columns) = rows . B, or that added to `out`, with B in panels (pack_pieces): what a loop does at every step.
 * A piece of a panel stays in the cache for all rows, which are cut into tiles of nearly the same height:
 * one of 1 or 2 rows would leave half of the multipliers idle. The higher tiles come first: taken in turns with the
 * lower ones they are mispredicted. */
static void multiply(int64_t m, int64_t depth, int64_t columns, const REAL *rows, int64_t stride, const REAL *panels,
                     REAL *out, int64_t out_stride, int add) {
  int64_t width = padded(columns), tiles = (m + MR - 1) / MR;
  int64_t low = tiles ? m / tiles : 0, higher = m - low * tiles; /* so many tiles have low + 1 rows */
  for (int64_t from = 0; from < depth || !from; from += PIECE) {
    int64_t piece = least(PIECE, depth - from), apart = piece * NR, c = 0;
    int onto = add || from;
    const REAL *panel = panels + from * width, *corner = rows + from;
    if (0 < m && m <= FEW)
      for (int64_t wide = PANELS[m] * NR; c + wide <= width; c += wide)
        WIDE[m](piece, corner, stride, 1, panel + c * piece, apart, onto ? out + c : ZERO, onto ? out_stride : 0,
                out + c, out_stride);
    for (; c < width; c += NR)
      for (int64_t t = 0, row = 0, height; t < tiles; t++, row += height) {
        height = low + (t < higher);
        REAL *to = out + row * out_stride + c;
        TILES[height](piece, corner + row * stride, stride, 1, panel + c * piece, apart, onto ? to : ZERO,
                      onto ? out_stride : 0, to, out_stride);
      }
  }
}

/* A product, cut into blocks of `out`; one thread makes a block from end to end. */
#define ROWS 192
#define COLUMNS 256
#define GAP (64 / (int64_t)sizeof(REAL)) /* between tiles of A: else all of them share a few lines of the cache */
#define MOST_PACKED (1 << 20) /* numbers of B that are packed at once for all blocks; of a larger B each packs its piece */
_Static_assert(COLUMNS % NR == 0, "panels must not cross blocks");

typedef struct {
  int64_t m, n, k, rows; /* `rows` of a block */
  matrix a, b;
  const REAL *packed; /* B in pieces, or NULL: each block packs what it needs */
  const REAL *bias;   /* (n), where the sums start; NULL: at zero, or at what is in `out` */
  int add;
  REAL *out;
  int64_t row, column; /* strides of `out` */
} product_call;

/* One tile of `out` at its edge or with strange strides, by way of a whole one. */
static void tile_by_copy(int m, int columns, int64_t depth, const REAL *rows, int64_t stride, int64_t step,
                         const REAL *panel, const REAL *base, int64_t base_row, int64_t base_column, REAL *out,
                         int64_t row, int64_t column) {
  REAL whole[MOST_MR * NR];
  memset(whole, 0, sizeof whole);
  for (int y = 0; y < m; y++)
    for (int x = 0; x < columns; x++) whole[y * NR + x] = base[y * base_row + x * base_column];
  TILES[m](depth, rows, stride, step, panel, 0, whole, NR, whole, NR);
  for (int y = 0; y < m; y++)
    for (int x = 0; x < columns; x++) out[y * row + x * column] = whole[y * NR + x];
}

/* Rows of A, whose numbers lie `column` apart, in tiles of MR rows that lie `apart`. Of a gradient, A is transposed
 * and neighbouring rows lie side by side: a line of it is read once, for all tiles. */
static void pack_tiles(const REAL *a, int64_t row, int64_t column, int64_t height, int64_t depth, REAL *tiles,
                       int64_t apart) {
  int64_t whole = row == 1 ? height / MR * MR : 0;
  for (int64_t k = 0; whole && k < depth; k++) {
    const REAL *line = a + k * column;
    REAL *to = tiles + k * MR;
    for (int64_t r = 0; r < whole; r += MR, to += apart) memcpy(to, line + r, MR * sizeof(REAL));
  }
  for (int64_t r = whole; r < height; r += MR)
    for (int64_t k = 0; k < depth; k++)
      for (int64_t y = 0; y < least(MR, height - r); y++)
        tiles[r / MR * apart + k * MR + y] = a[(r + y) * row + k * column];
}

static int product_block(const void *context, int64_t i) {
  const product_call *c = context;
  int64_t across = (c->n + COLUMNS - 1) / COLUMNS, top = i / across * c->rows, left = i % across * COLUMNS;
  int64_t height = least(c->rows, c->m - top), width = least(COLUMNS, c->n - left), piece = least(PIECE, c->k);
  int direct = c->a.column == 1; /* rows of A that lie in one piece are read where they are */
  int64_t apart = piece * MR + GAP, size = direct ? 0 : (height + MR - 1) / MR * apart;
  REAL *memory = reserve(size + NR + (c->packed ? 0 : piece * padded(width)));
  if (!memory) return 1;
  for (int64_t from = 0; from < c->k || !from; from += PIECE) {
    int64_t depth = least(PIECE, c->k - from);
    const REAL *panels =
        c->packed ? c->packed + from * padded(c->n) + left * depth : memory + (size + NR - 1) / NR * NR;
    for (int64_t j = 0; !c->packed && j < width; j += NR)
      pack_panel(c->b, from, depth, left + j, left + width, (REAL *)panels + j * depth);
    const REAL *corner = c->a.at + top * c->a.row + from * c->a.column;
    if (!direct) pack_tiles(corner, c->a.row, c->a.column, height, depth, memory, apart);
    for (int64_t j = 0; j < width; j += NR)
      for (int64_t r = 0; r < height; r += MR) {
        int m = (int)least(MR, height - r), columns = (int)least(NR, width - j);
        REAL *out = c->out + (top + r) * c->row + (left + j) * c->column;
        const REAL *base = from || c->add ? out : c->bias ? c->bias + left + j : ZERO;
        int64_t base_row = base == out ? c->row : 0, base_column = base == out ? c->column : base != ZERO;
        const REAL *rows = direct ? corner + r * c->a.row : memory + r / MR * apart;
        int64_t stride = direct ? c->a.row : 1, step = direct ? 1 : MR;
        if (c->column == 1 && columns == NR)
          TILES[m](depth, rows, stride, step, panels + j * depth, 0, base, base_row, out, c->row);
        else
          tile_by_copy(m, columns, depth, rows, stride, step, panels + j * depth, base, base_row, base_column, out,
                       c->row, c->column);
      }
  }
  free(memory);
  return 0;
}

/* One row of A: B is read once, so it is not packed. The sums are those of a tile. */
static int row_block(const void *context, int64_t i) {
  const product_call *c = context;
  int64_t left = i * COLUMNS, width = least(COLUMNS, c->n - left);
  REAL sum[COLUMNS];
  for (int64_t from = 0; from < c->k || !from; from += PIECE) {
    memset(sum, 0, sizeof sum);
    for (int64_t k = from; k < least(from + PIECE, c->k); k++) {
      const REAL x = c->a.at[k * c->a.column], *row = c->b.at + k * c->b.row + left;
      for (int64_t j = 0; j < width; j++) sum[j] += x * row[j];
    }
    REAL *out = c->out + left * c->column;
    for (int64_t j = 0; j < width; j++) {
      REAL base = from || c->add ? out[j * c->column] : c->bias ? c->bias[left + j] : 0;
      out[j * c->column] = base + sum[j];
    }
  }
  return 0;
}

/* A piece of B in panels, for all blocks of rows at once. */
static int pack_block(const void *context, int64_t i) {
  const product_call *c = context;
  int64_t across = padded(c->n) / NR, from = i / across * PIECE, first = i % across * NR;
  int64_t depth = least(PIECE, c->k - from);
  pack_panel(c->b, from, depth, first, c->n, (REAL *)c->packed + from * padded(c->n) + first * depth);
  return 0;
}

static int run_product(product_call *c, int threads) {
  if ((double)c->m * (double)c->n * (double)c->k < SMALL) threads = 1;
  if (c->m == 1 && !c->packed && c->b.column == 1)
    return share((c->n + COLUMNS - 1) / COLUMNS, threads, row_block, c);
  int64_t across = (c->n + COLUMNS - 1) / COLUMNS, down = (c->m + ROWS - 1) / ROWS;
  if (down * across < threads) down = threads;
  c->rows = ((c->m + down - 1) / (down ? down : 1) + MR - 1) / MR * MR;
  if (!c->m) return 0;
  int64_t size = c->k * padded(c->n);
  REAL *made = down > 1 && !c->packed && size && size <= MOST_PACKED ? reserve(size) : NULL;
  if (made) {
    c->packed = made;
    share((c->k + PIECE - 1) / PIECE * (padded(c->n) / NR), threads, pack_block, c);
  }
  int failed = share((c->m + c->rows - 1) / c->rows * across, threads, product_block, c);
  free(made);
  return failed;
}

/* out (m x n) = A (m x k) . B (k x n) + bias, or that product added to `out`. The longer side of `out` is laid across
 * the panels, for those are padded; which one it is does not change a bit, since x * y = y * x. */
int product(int64_t m, int64_t n, int64_t k, int threads, int add, const REAL *a, int64_t a_row, int64_t a_column,
            REAL *out, int64_t row, int64_t column, const REAL *bias, const REAL *b, int64_t b_row, int64_t b_column) {
  product_call c = {.m = m, .n = n, .k = k, .a = {a, a_row, a_column}, .b = {b, b_row, b_column}, .bias = bias,
                    .add = add, .out = out, .row = row, .column = column};
  product_call turned = {.m = n, .n = m, .k = k, .a = {b, b_column, b_row}, .b = {a, a_column, a_row}, .add = add,
                         .out = out, .row = column, .column = row};
  return run_product(n < 2 * NR && m > n && !bias ? &turned : &c, threads);
}

/* The same in two parts, for a B that is used many times: packed has room for k * packed_width(n) numbers. */
int64_t packed_width(int64_t n) { return padded(n); }

void pack_pieces(int64_t k, int64_t n, const REAL *b, int64_t row, int64_t column, REAL *packed) {
  for (int64_t from = 0; from < k; from += PIECE) {
    int64_t depth = least(PIECE, k - from);
    for (int64_t c = 0; c < n; c += NR)
      pack_panel((matrix){b, row, column}, from, depth, c, n, packed + from * padded(n) + c * depth);
  }
}

int packed_product(int64_t m, int64_t n, int64_t k, int threads, int add, const REAL *a, int64_t a_row,
                   int64_t a_column, REAL *out, int64_t row, int64_t column, const REAL *packed) {
  product_call c = {.m = m, .n = n, .k = k, .a = {a, a_row, a_column}, .packed = packed, .add = add, .out = out,
                    .row = row, .column = column};
  return run_product(&c, threads);
}

/* sums[j] = rows[0][j] + rows[1][j] + ..., in pieces as above; with `signs`, each number with the sign of the number
 * of `signs` at its place. */
typedef struct {
  int64_t count, width;
  const REAL *rows, *signs;
  REAL *sums;
} sum_call;

static int sum_block(const void *context, int64_t i) {
  const sum_call *c = context;
  int64_t first = i * COLUMNS, width = least(COLUMNS, c->width - first);
  REAL piece[COLUMNS];
  memset(c->sums + first, 0, (size_t)width * sizeof(REAL));
  for (int64_t from = 0; from < c->count; from += PIECE) {
    memset(piece, 0, sizeof piece);
    for (int64_t r = from; r < least(from + PIECE, c->count); r++) {
      const REAL *row = c->rows + r * c->width + first;
      if (c->signs) {
        const REAL *sign = c->signs + r * c->width + first;
        for (int64_t j = 0; j < width; j++) piece[j] += sign[j] < 0 ? -row[j] : row[j];
      } else
        for (int64_t j = 0; j < width; j++) piece[j] += row[j];
    }
    for (int64_t j = 0; j < width; j++) c->sums[first + j] += piece[j];
  }
  return 0;
}

int column_sums(int64_t count, int64_t width, int threads, const REAL *rows, const REAL *signs, REAL *sums) {
  sum_call c = {count, width, rows, signs, sums};
  return share((width + COLUMNS - 1) / COLUMNS, (double)count * (double)width < SMALL ? 1 : threads, sum_block, &c);
}
