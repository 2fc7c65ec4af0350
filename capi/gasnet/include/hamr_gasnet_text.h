/* Texts of masks and of lists, for messages of programs. */
#ifndef HAMR_GASNET_TEXT_H
#define HAMR_GASNET_TEXT_H

GASNETT_BEGIN_EXTERNC

/* Appends to a text of which `at` bytes are there. Returns how many there are then, with those that have no room. */
__attribute__((__format__(__printf__, 4, 5))) static inline size_t hamr_gasnett_append(char *buf, size_t size, size_t at,
                                                                                        const char *format, ...) {
  va_list arguments;
  int len;
  va_start(arguments, format);
  len = vsnprintf(buf && at < size ? buf + at : NULL, buf && at < size ? size - at : 0, format, arguments);
  va_end(arguments);
  return at + (len > 0 ? (size_t)len : 0);
}

/* The names of a mask's bits, `A|B`. Returns the bytes of the text with its final 0; without a buffer nothing else. */
static inline size_t hamr_gasnett_bits(char *buf, uint32_t mask, const char *prefix, const char *const names[32]) {
  size_t at = 0;
  int bit;
  if (buf) *buf = 0;
  for (bit = 0; bit < 32; bit++) {
    if (!(mask >> bit & 1)) continue;
    if (at) at = hamr_gasnett_append(buf, SIZE_MAX, at, "|");
    if (names[bit]) at = hamr_gasnett_append(buf, SIZE_MAX, at, "%s%s", prefix, names[bit]);
    else at = hamr_gasnett_append(buf, SIZE_MAX, at, "%#x", 1u << bit);
  }
  if (!at) at = hamr_gasnett_append(buf, SIZE_MAX, at, "0");
  return at + 1;
}
static inline size_t gasnett_format_dt(char *buf, gex_DT_t dt) {
  static const char *const names[32] = {"I32", "U32", "I64", "U64", "FLT", "DBL", "USER"};
  return hamr_gasnett_bits(buf, dt, "GEX_DT_", names);
}
static inline size_t gasnett_format_op(char *buf, gex_OP_t op) {
  static const char *const names[32] = {"AND",  "OR",   "XOR",  "ADD",   "SUB",  "MULT", "MIN",  "MAX",  "INC",  "DEC", "SET",
                                        "CAS",  NULL,   NULL,   NULL,    "FAND", "FOR",  "FXOR", "FADD", "FSUB", "FMULT", "FMIN",
                                        "FMAX", "FINC", "FDEC", "SWAP",  "FCAS", "GET",  NULL,   NULL,   "USER", "USER_NC"};
  return hamr_gasnett_bits(buf, op, "GEX_OP_", names);
}
static inline size_t gasnett_format_ti(char *buf, gex_TI_t ti) {
  static const char *const names[32] = {"SRCRANK", "ENTRY", "IS_REQ", "IS_LONG", "EP"};
  return hamr_gasnett_bits(buf, ti, "GEX_TI_", names);
}

/* Bytes that a text of a list needs at most, and the text. An entry is an address and a length: 64 bytes are enough. */
#define gasnett_format_memveclist_bufsz(count) ((size_t)64 * ((size_t)(count) + 1))
#define gasnett_format_addrlist_bufsz(count) ((size_t)64 * ((size_t)(count) + 1))
#define gasnett_format_putsgets_bufsz(stridelevels) ((size_t)96 * ((size_t)(stridelevels) + 2))
static inline char *hamr_gasnett_memveclist(char *buf, size_t count, const gex_Memvec_t *list) {
  const size_t size = gasnett_format_memveclist_bufsz(count);
  size_t i, at = hamr_gasnett_append(buf, size, 0, "%" PRIuSZ " entries:", count);
  for (i = 0; i < count; i++)
    at = hamr_gasnett_append(buf, size, at, " %p+%" PRIuSZ, list[i].gex_addr, list[i].gex_len);
  return buf;
}
#define gasnett_format_memveclist(buf, count, list)                                                                 \
  hamr_gasnett_memveclist((buf), (count), (const gex_Memvec_t *)(const void *)(list))
static inline char *gasnett_format_addrlist(char *buf, size_t count, void *const list[], size_t len) {
  const size_t size = gasnett_format_addrlist_bufsz(count);
  size_t i, at = hamr_gasnett_append(buf, size, 0, "%" PRIuSZ " entries of %" PRIuSZ ":", count, len);
  for (i = 0; i < count; i++) at = hamr_gasnett_append(buf, size, at, " %p", list[i]);
  return buf;
}
static inline char *gasnett_format_putsgets(char *buf, void *stats, gex_TM_t tm, gex_Rank_t rank, void *dstaddr,
                                            const ptrdiff_t dststrides[], void *srcaddr, const ptrdiff_t srcstrides[],
                                            size_t elemsz, const size_t count[], size_t stridelevels) {
  const size_t size = gasnett_format_putsgets_bufsz(stridelevels);
  size_t i, at = hamr_gasnett_append(buf, size, 0, "%p from %p, rank %u, elements of %" PRIuSZ ":", dstaddr, srcaddr,
                                     (unsigned)rank, elemsz);
  (void)stats, (void)tm;
  for (i = 0; i < stridelevels; i++)
    at = hamr_gasnett_append(buf, size, at, " %" PRIuSZ " by %" PRIdSZ " and %" PRIdSZ, count[i], dststrides[i], srcstrides[i]);
  return buf;
}

GASNETT_END_EXTERNC

#endif
