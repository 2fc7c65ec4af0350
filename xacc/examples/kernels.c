// The loops of kernels.rs in C, as fast as gcc makes them: a kernel with vector lanes for the sum, pointers that do not alias, arrays
// that begin at different places of a page. usage: kernels jacobi REPETITIONS NI NJ NK | kernels bytes REPETITIONS NI NJ
// | kernels axpy|dot REPETITIONS N
// Prints seconds and a checksum.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARRAYS = 14 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// One row. Not inlined: gcc 12 then keeps to scalar code, for it has more pointers than registers.
__attribute__((noinline))
static double line(long count, long I, long J, const float *restrict u,
                   const float *restrict a0, const float *restrict a1, const float *restrict a2, const float *restrict a3,
                   const float *restrict b0, const float *restrict b1, const float *restrict b2,
                   const float *restrict c0, const float *restrict c1, const float *restrict c2,
                   const float *restrict w1, const float *restrict bn, float *restrict w2) {
  double gosa = 0;
  #pragma omp simd reduction(+:gosa)
  for (long k = 0; k < count; k++) {
    float s0 = a0[k] * u[k + I] + a1[k] * u[k + J] + a2[k] * u[k + 1]
      + b0[k] * (u[k + I + J] - u[k + I - J] - u[k - I + J] + u[k - I - J])
      + b1[k] * (u[k + J + 1] - u[k - J + 1] - u[k + J - 1] + u[k - J - 1])
      + b2[k] * (u[k + I + 1] - u[k - I + 1] - u[k + I - 1] + u[k - I - 1])
      + c0[k] * u[k - I] + c1[k] * u[k - J] + c2[k] * u[k - 1] + w1[k];
    float ss = (s0 * a3[k] - u[k]) * bn[k];
    gosa += ss * ss;
    w2[k] = u[k] + 0.8f * ss;
  }
  return gosa;
}

__attribute__((noinline)) static double jacobi(const long n[3], long I, long J, float **m) {
  double gosa = 0;
  for (long i = 1; i < n[0] - 1; i++) for (long j = 1; j < n[1] - 1; j++) {
    long x = i * I + j * J + 1;
    gosa += line(n[2] - 2, I, J, m[0] + x, m[1] + x, m[2] + x, m[3] + x, m[4] + x, m[5] + x, m[6] + x, m[7] + x, m[8] + x, m[9] + x,
                 m[10] + x, m[11] + x, m[12] + x, m[13] + x);
  }
  return gosa;
}

__attribute__((noinline)) static void axpy(long n, double a, const double *restrict x, double *restrict y) {
  for (long i = 0; i < n; i++) y[i] += a * x[i];
}

__attribute__((noinline)) static double dot(long n, const double *restrict x, const double *restrict y) {
  double sum = 0;
  #pragma omp simd reduction(+:sum)
  for (long i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

__attribute__((noinline)) static void bytes(const long n[2], const uint8_t *restrict from, uint8_t *restrict to) {
  for (long i = 1; i < n[0] - 1; i++) for (long j = 1; j < n[1] - 1; j++) {
    const uint8_t *at = from + i * n[1] + j;
    to[i * n[1] + j] = (at[-n[1]] + at[n[1]] + at[-1] + at[1]) / 4;
  }
}

int main(int argc, char **argv) {
  if (argc < 4 || (argc < 6 && !strcmp(argv[1], "jacobi")) || (argc < 5 && !strcmp(argv[1], "bytes"))) return 2;
  long repetitions = atol(argv[2]);
  double checksum = 0, start;
  if (!strcmp(argv[1], "jacobi")) {
    long n[3] = {atol(argv[3]), atol(argv[4]), atol(argv[5])}, J = n[2] + 16, I = n[1] * J, points = n[0] * I;
    long apart = (points + 15) / 16 * 16 + 80;
    float *all = aligned_alloc(64, sizeof *all * ARRAYS * apart), *m[ARRAYS];
    for (int x = 0; x < ARRAYS; x++) {
      m[x] = all + x * apart;
      for (long i = 0; i < points; i++) m[x][i] = x == 4 ? 1.0f / 6 : x >= 5 && x <= 7 ? 0 : 1;
    }
    start = now();
    for (long r = 0; r < repetitions; r++) checksum += jacobi(n, I, J, m);
  } else if (!strcmp(argv[1], "bytes")) {
    long n[2] = {atol(argv[3]), atol(argv[4])};
    uint8_t *from = malloc(n[0] * n[1]), *to = calloc(n[0], n[1]);
    for (long i = 0; i < n[0]; i++) for (long j = 0; j < n[1]; j++) from[i * n[1] + j] = 7 * i + 13 * j;
    start = now();
    for (long r = 0; r < repetitions; r++) bytes(n, from, to);
    checksum = to[n[0] / 2 * n[1] + n[1] / 2];
  } else {
    long n = atol(argv[3]);
    double *x = aligned_alloc(64, (sizeof *x * n + 63) / 64 * 64), *y = aligned_alloc(64, (sizeof *y * n + 63) / 64 * 64);
    for (long i = 0; i < n; i++) x[i] = y[i] = 1;
    start = now();
    for (long r = 0; r < repetitions; r++) {
      if (!strcmp(argv[1], "axpy")) axpy(n, 0.5, x, y); else checksum += dot(n, x, y);
    }
    checksum += y[0];
  }
  printf("%.9f %g\n", now() - start, checksum);
  return 0;
}
