/* Variables of the launcher with values that are none, also bytes that are no text: one line that names the variable and
 * what was expected, code 2, and no rank starts. An empty value is as good as none.
 * ranks: 1 */
#include "test.h"

static const char *const numbers[] = {"\xff\xfe", "2\xc3(", "0", "65", "-1", "+", "1e1", "2.0", "2 x", "99999999999999999999", "\x1b[31m"};
static const char *const sizes[] = {"\xff\xfe", "1\xc3(G", "x", "-1", "1Q", "1G/X", "/", "nan", "inf", "1e999", "-0.5", "\x1b[31m"};

/* The child's status and output, with this variable set to that. */
static int run(const char *name, const char *value, char *said, size_t room) {
  char command[5000];
  CHECK(!setenv(name, value, 1));
  snprintf(command, sizeof command, "'%s' child 2>&1", gasnett_exe_name());
  FILE *child = popen(command, "r");
  CHECK(child);
  const size_t len = fread(said, 1, room - 1, child);
  said[len] = 0;
  const int status = pclose(child);
  CHECK(!unsetenv(name));
  return status;
}

static void refuses(const char *name, const char *value) {
  char said[4000];
  const int status = run(name, value, said, sizeof said);
  const char *const end = strchr(said, '\n');
  if (status != 2 << 8 || !strstr(said, name) || !strstr(said, "expected") || !end || end[1] || strpbrk(said, "\x1b\xff")) {
    fprintf(stderr, "%s=%s: status %#x, said: %s\n", name, value, status, said);
    gasnet_exit(1);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  if (argc > 1) {
    puts("started");
    gasnet_exit(0);
  }
  CHECK(!unsetenv("GASNET_PSHM_NODES") && !unsetenv("HAMR_NODES") && !unsetenv("GASNET_MAX_SEGSIZE"));
  const char *const names[] = {"GASNET_PSHM_NODES", "HAMR_NODES", "GASNET_MAX_SEGSIZE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char said[4000];
    const int status = run(names[i], "", said, sizeof said);
    CHECK(status == 0 && !strcmp(said, "started\n"));
    const char *const *values = i == 2 ? sizes : numbers;
    const size_t count = i == 2 ? sizeof sizes / sizeof *sizes : sizeof numbers / sizeof *numbers;
    for (size_t j = 0; j < count; j++) refuses(names[i], values[j]);
  }
  return done();
}
