/* Programs that are started without standard input, output or error, in every combination: what they print goes nowhere, and
 * not into what they open next.
 * ranks: 1 */
#include "test.h"

static int child(void) {
  for (int round = 0; round < 20; round++) {
    for (int line = 0; line < 200; line++) printf("round %d, line %d: some text\n", round, line);
    fprintf(stderr, "round %d\n", round);
    fflush(stdout);
    meet();
  }
  CHECK(getchar() == EOF);
  gasnet_exit(7);
  return 0;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  if (argc > 1) return child();
  for (int closed = 0; closed < 8; closed++) {
    char command[5000];
    snprintf(command, sizeof command, "GASNET_PSHM_NODES=2 '%s' child %s %s %s", gasnett_exe_name(), closed & 1 ? "<&-" : "</dev/null",
             closed & 2 ? ">&-" : ">/dev/null", closed & 4 ? "2>&-" : "2>/dev/null");
    const int status = system(command);
    printf("%s: status %#x\n", command, status);
    CHECK(status == 7 << 8);
  }
  return done();
}
