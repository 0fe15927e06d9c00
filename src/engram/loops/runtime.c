/* The runtime library: one per dtype, shared by every compiled loop, so that there is one pool of threads and the
 * products have the same bits wherever they are asked for. Plain C with the vector extensions of gcc and clang, no
 * header of torch or Python; Python calls product, pack_pieces, packed_product, packed_width and column_sums through
 * ctypes, generated loops call what runtime() gives them.
 */
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
