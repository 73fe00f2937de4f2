// Copies by several threads, and past the caches, between addresses of every alignment: nothing is left out, and
// nothing beside the target is written.
//
// Usage: copies CASE; silent if all is well.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/parallel.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kUntouched = 0xEE;
constexpr std::size_t kRoom = 64;  // on both sides

Bytes numbered(std::size_t bytes) {
    Bytes numbers(bytes);
    for (std::size_t i = 0; i < bytes; ++i) numbers[i] = static_cast<unsigned char>(i * 31 % 223);
    return numbers;
}

template <class Copy>
bool is_right(const Copy& copy, std::size_t bytes, std::size_t to, std::size_t from) {
    const Bytes source = numbered(bytes + 2 * kRoom);
    Bytes target(bytes + 2 * kRoom, kUntouched), expected = target;
    for (std::size_t i = 0; i < bytes; ++i) expected[to + i] = source[from + i];
    copy(target.data() + to, source.data() + from, bytes);
    return target == expected;
}

}  // namespace

int main(int, char** arguments) {
    const std::string name = arguments[1];
    const auto copy = name == "streaming" ? spmvgpu::streaming_copy : spmvgpu::parallel_copy;
    // A part of a copy by several threads has 256 KiB.
    const std::vector<std::size_t> small = {0, 1, 8, 15, 16, 17, 63, 64, 65, 200}, large = {262'144, 262'152, 1'048'584};
    for (std::size_t to = 0; to < 32; ++to) {
        for (const std::size_t from : {0, 1, 8, 15}) {
            for (const std::size_t bytes : to % 8 > 1 ? small : large) {
                if (is_right(copy, bytes, to, from)) continue;
                std::fprintf(stderr, "%s: %zu bytes from %zu to %zu\n", name.c_str(), bytes, from, to);
                return 1;
            }
        }
    }
}
