// The C library from C++: handles in std::unique_ptr, errors as exceptions.
//
//     c++ -std=c++17 fruit.cpp -o fruit $(pkg-config --cflags --libs braidb) && ./fruit DIR
#include <braidb.h>

#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

// Frees each kind of handle by its own function.
struct Free {
    void operator()(braidb_t *db) const { braidb_db_free(db); }
    void operator()(braidb_value_t *value) const { braidb_value_free(value); }
    void operator()(braidb_cursor_t *cursor) const { braidb_cursor_free(cursor); }
    void operator()(braidb_error_t *error) const { braidb_error_free(error); }
};
template <typename T> using Handle = std::unique_ptr<T, Free>;

// An empty view may have no pointer, and a slice without a pointer is no bound of a range. So an empty text gets a pointer here.
static braidb_slice_t slice(std::string_view text) { return braidb_slice(text.empty() ? "" : text.data(), text.size()); }

static std::string_view view(braidb_slice_t slice) {
    return {reinterpret_cast<const char *>(slice.data), slice.len};
}

// Whether the call found something. Throws its error. It gets the place of the error: C++ may read a second argument before the call in
// the first.
static bool check(braidb_code_t code, braidb_error_t **error) {
    Handle<braidb_error_t> owned(*error);
    if (owned != nullptr) {
        throw std::runtime_error(braidb_error_message(owned.get()));
    }
    return code == BRAIDB_OK;
}

static Handle<braidb_t> open(const char *path) {
    braidb_t *db;
    braidb_error_t *error;
    check(braidb_open(path, nullptr, &db, &error), &error);
    return Handle<braidb_t>(db);
}

static std::optional<std::string> get(const braidb_t *db, std::string_view key) {
    braidb_value_t *value;
    braidb_error_t *error;
    if (!check(braidb_get(db, nullptr, nullptr, slice(key), &value, &error), &error)) {
        return std::nullopt;
    }
    Handle<braidb_value_t> owned(value);
    return std::string(view(braidb_slice(braidb_value_data(value), braidb_value_len(value))));
}

static void run(const char *path) {
    Handle<braidb_t> db = open(path);
    braidb_error_t *error;
    check(braidb_put(db.get(), nullptr, slice("apple"), slice("red"), &error), &error);
    check(braidb_put(db.get(), nullptr, slice("plum"), slice("blue"), &error), &error);
    std::cout << "apple is " << get(db.get(), "apple").value_or("gone") << "\n";

    braidb_cursor_t *created;
    check(braidb_cursor_create(db.get(), nullptr, nullptr, braidb_none(), braidb_none(), &created, &error), &error);
    Handle<braidb_cursor_t> cursor(created);
    // Against key order.
    while (check(braidb_cursor_prev(cursor.get(), &error), &error)) {
        std::cout << view(braidb_cursor_key(cursor.get())) << "\n";
    }
    check(braidb_close(db.get(), &error), &error);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " DIR\n";
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const std::exception &exception) {
        std::cerr << exception.what() << "\n";
        return 1;
    }
    return 0;
}
