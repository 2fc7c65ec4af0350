/* Ping-pongs and message rates between two ranks of MPI, as rows "what number value" on standard
 * output: "size BYTES NS", the median round trip of a message of that many bytes each way, and
 * "window COUNT RATE", messages of 8 bytes per second with COUNT in flight. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20000, WARM = 2000, BATCHES = 1000, LARGEST = 1024, WIDEST = 64 };

static double times[ROUNDS];
static char out[LARGEST], in[LARGEST];

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(int count) {
    qsort(times, count, sizeof times[0], by_value);
    return times[count / 2];
}

static void round_trips(int rank, int bytes) {
    for (int i = -WARM; i < ROUNDS; i++) {
        double begin = MPI_Wtime();
        if (rank == 0) MPI_Send(out, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        if (i >= 0) times[i] = (MPI_Wtime() - begin) * 1e9;
    }
    if (rank == 0) printf("size %d %.1f\n", bytes, median(ROUNDS));
}

/* Rank 1 sends an empty message when it has received all of a batch. */
static void batches(int rank, int window) {
    MPI_Request flight[WIDEST];
    for (int i = -BATCHES / 10; i < BATCHES; i++) {
        double begin = MPI_Wtime();
        for (int k = 0; k < window; k++) {
            if (rank == 0)
                MPI_Isend(out, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &flight[k]);
            else
                MPI_Irecv(in + 8 * k, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &flight[k]);
        }
        MPI_Waitall(window, flight, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(in, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(out, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        if (i >= 0) times[i] = (MPI_Wtime() - begin) * 1e9 / window;
    }
    if (rank == 0) printf("window %d %.0f\n", window, 1e9 / median(BATCHES));
}

int main(int count, char **arguments) {
    int rank;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(rank == 0 ? atoi(arguments[1]) : atoi(arguments[2]), &own);
    sched_setaffinity(0, sizeof own, &own);
    const int sizes[] = {8, 64, 512, 1024}, windows[] = {1, 4, 16, 64};
    for (int i = 0; i < 4; i++) round_trips(rank, sizes[i]);
    for (int i = 0; i < 4; i++) batches(rank, windows[i]);
    MPI_Finalize();
    return 0;
}
