// An exception of C++ that leaves a callback ends the process by abort: Rust below it does not go on with half a call.
#include "check.h"

#include <csignal>
#include <initializer_list>
#include <stdexcept>
#include <sys/types.h>
#include <sys/wait.h>

static void on_put(void *, const char *, size_t, const char *, size_t) { throw std::runtime_error("of a put"); }
static void on_delete(void *, const char *, size_t) { throw std::runtime_error("of a delete"); }
static const char *name(void *) { throw std::runtime_error("of a name"); }
static void destroy(void *) { throw std::runtime_error("of a destructor"); }

static void iterate_puts() {
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "plum", 4, "blue", 4);
    leveldb_writebatch_iterate(batch, nullptr, on_put, on_delete);
}

static void iterate_deletes() {
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writebatch_delete(batch, "plum", 4);
    leveldb_writebatch_iterate(batch, nullptr, on_put, on_delete);
}

static void name_a_comparator() {
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_comparator(options, leveldb_comparator_create(nullptr, nullptr, nullptr, name));
}

static void destroy_a_comparator() { leveldb_comparator_destroy(leveldb_comparator_create(nullptr, destroy, nullptr, name)); }

static void destroy_a_filter_policy() {
    leveldb_filterpolicy_destroy(leveldb_filterpolicy_create(nullptr, destroy, nullptr, nullptr, name));
}

int main(int argc, char **argv) {
    directory(argc, argv);
    for (void (*throws)() : {iterate_puts, iterate_deletes, name_a_comparator, destroy_a_comparator, destroy_a_filter_policy}) {
        const pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            try {
                throws();
            } catch (const std::exception &) {
                _exit(3);
            }
            _exit(4);
        }
        int status = 0;
        CHECK(waitpid(process, &status, 0) == process);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    return 0;
}
