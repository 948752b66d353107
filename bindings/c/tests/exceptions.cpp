// An exception of C++ that leaves a callback ends the process by abort: Rust below it does not go on with half a call.
#include "check.h"

#include <csignal>
#include <initializer_list>
#include <stdexcept>
#include <sys/types.h>
#include <sys/wait.h>

static int on_entry(void *, braidb_slice_t, braidb_slice_t) { throw std::runtime_error("of an entry"); }
static int on_put(void *, braidb_slice_t, braidb_slice_t, braidb_slice_t) { throw std::runtime_error("of a put"); }
static int on_delete(void *, braidb_slice_t, braidb_slice_t) { return 0; }

static void scan(braidb_t *db) {
    braidb_overlay_t *overlay;
    OK(braidb_overlay_create(db, &overlay, &err));
    braidb_overlay_scan(overlay, nullptr, braidb_none(), braidb_none(), 0, on_entry, nullptr, nullptr);
}

static void iterate(braidb_t *) {
    braidb_batch_t *batch = braidb_batch_create();
    OK(braidb_batch_put(batch, nullptr, braidb_text("plum"), braidb_text("blue"), &err));
    braidb_batch_iterate(batch, on_put, on_delete, nullptr, nullptr);
}

int main(int argc, char **argv) {
    const char *dir = directory(argc, argv);
    for (void (*throws)(braidb_t *) : {scan, iterate}) {
        const pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            braidb_t *db = open_db(dir);
            put(db, nullptr, "plum", "blue");
            try {
                throws(db);
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
