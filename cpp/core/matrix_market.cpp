#include "core/matrix_market.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr std::int64_t kPieceBytes = 64 << 10;
constexpr std::int64_t kShownBytes = 40;  // bytes of a word that an error quotes

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_word(char c) { return is_blank(c) || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

const char* skip_blanks(const char* at) {
    while (is_blank(*at)) ++at;
    return at;
}

const char* next_line(const char* at, const char* end) {
    return static_cast<const char*>(std::memchr(at, '\n', end - at)) + 1;
}

const char* word_end(const char* at) {
    while (!ends_word(*at)) ++at;
    return at;
}

bool begins_entry(char c) { return c != '\n' && c != '%'; }

// Each of these functions reads the word at `at` and returns its end, or null if the word is no such number.

const char* read_whole(const char* at, const char* end, std::uint64_t& value) {
    at += *at == '+';
    const auto [parsed, error] = std::from_chars(at, end, value);
    return error == std::errc() && ends_word(*parsed) ? parsed : nullptr;
}

const char* read_whole(const char* at, const char* end, double& value) {
    const bool is_negative = *at == '-';
    std::uint64_t magnitude = 0;
    if (is_negative && at[1] == '+') return nullptr;
    const char* const parsed = read_whole(at + is_negative, end, magnitude);
    value = is_negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
    return parsed;
}

// As C++ spells it: with e in place of Fortran's d and q, and before an exponent that has only its sign, as in 1.5-103.
std::string without_fortran(const char* at, const char* end) {
    std::string word;
    for (; at != end; ++at) {
        const bool is_exponent = *at == 'd' || *at == 'D' || *at == 'q' || *at == 'Q';
        const bool is_sign = *at == '+' || *at == '-';
        if (is_sign && !word.empty() && (is_digit(word.back()) || word.back() == '.')) word += 'e';
        word += is_exponent ? 'e' : *at;
    }
    return word;
}

// Numbers that are too large become infinite, and those that are too small 0.
double beyond_range(const std::string& word) {
    std::istringstream stream(word);
    stream.imbue(std::locale::classic());
    double value = 0;
    stream >> value;
    return stream.fail() && value != 0 ? std::copysign(HUGE_VAL, value) : value;
}

const char* read_unusual(const char* at, double& value) {
    const char* const end = word_end(at);
    const std::string word = without_fortran(at, end);
    const auto [parsed, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc::invalid_argument || parsed != word.data() + word.size()) return nullptr;
    if (error == std::errc::result_out_of_range) value = beyond_range(word);
    return end;
}

const char* read_real(const char* at, const char* end, double& value) {
    if (*at == '+' && at[1] == '-') return nullptr;
    at += *at == '+';
    const auto [parsed, error] = std::from_chars(at, end, value);
    return error == std::errc() && ends_word(*parsed) ? parsed : read_unusual(at, value);
}

// Returns true if a word that was read as infinite is a number too large for double, and not "inf".
bool is_too_large(const char* at, double value) {
    at += *at == '+' || *at == '-';
    return std::isinf(value) && (is_digit(*at) || *at == '.');
}

std::string quoted(const char* at) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const char* const end = word_end(at);
    std::string text = "'";
    for (const char* c = at; c != end && c - at < kShownBytes; ++c) {
        const auto code = static_cast<unsigned char>(*c);
        if (code >= 0x20 && code < 0x7f) {
            text += *c;
        } else {
            text += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
        }
    }
    return text + (end - at > kShownBytes ? "...'" : "'");
}

std::string range_of(const char* what, std::int64_t length) {
    return " is no " + std::string(what) + " from 1 to " + std::to_string(length);
}

}  // namespace

// Neighbouring lines of a block.
template <class Index>
struct EntryReader<Index>::Piece {
    const char* begin;
    const char* end;
    std::int64_t lines = 0, entries = 0;
    std::int64_t first = 0;  // entry of the file
    bool has_below = false, has_above = false;
    const char* wrong_at = nullptr;  // the first line that is wrong, or null
    std::string message;

    void count() {
        for (const char* at = begin; at != end; at = next_line(at, end)) {
            ++lines;
            at = skip_blanks(at);
            entries += begins_entry(*at);
        }
    }

    void refuse(const char* at, std::string why) {
        wrong_at = at;
        message = std::move(why);
    }
};

template <class Index>
EntryReader<Index>::EntryReader(const EntryLines& lines, std::int64_t line)
    : lines_(lines),
      line_(line),
      row_(lines.indices > 0 ? lines.entries : 0),
      col_(lines.indices > 1 ? lines.entries : 0),
      values_(lines.entries * lines.values) {}

template <class Index>
void EntryReader<Index>::read(const char* begin, const char* end) {
    if (begin == end) return;
    if (end[-1] != '\n') throw std::invalid_argument("a block of lines must end with a newline");
    const std::int64_t count = (end - begin) / kPieceBytes + 1;
    const auto line_at = [&](std::int64_t p) {
        const char* const at = begin + part_begin(end - begin, count, p);
        return at == begin ? begin : next_line(at - 1, end);
    };
    std::vector<Piece> pieces(count);
    for_each_piece(count, [&](std::int64_t p) {
        pieces[p].begin = line_at(p);
        pieces[p].end = line_at(p + 1);
        pieces[p].count();
    });
    std::int64_t entries = found_;
    for (Piece& piece : pieces) {
        piece.first = entries;
        entries += piece.entries;
    }
    for_each_piece(count, [&](std::int64_t p) { parse(pieces[p]); });
    for (const Piece& piece : pieces) {
        if (piece.wrong_at != nullptr) {
            const std::int64_t line = line_ + std::count(piece.begin, piece.wrong_at, '\n');
            throw std::invalid_argument("line " + std::to_string(line) + ": " + piece.message);
        }
        line_ += piece.lines;
        has_below_ |= piece.has_below;
        has_above_ |= piece.has_above;
    }
    found_ = std::min(entries, lines_.entries);
}

template <class Index>
void EntryReader<Index>::parse(Piece& piece) {
    Index* const places[] = {row_.data(), col_.data()};
    const std::int64_t lengths[] = {lines_.rows, lines_.cols};
    static constexpr const char* kNames[] = {"row", "column"};
    const int numbers = lines_.indices + lines_.values;
    std::int64_t entry = piece.first;
    for (const char* at = piece.begin; at != piece.end; at = next_line(at, piece.end)) {
        at = skip_blanks(at);
        if (!begins_entry(*at)) continue;
        if (entry == lines_.entries) {
            if (lines_.rest_is_ignored) return;
            return piece.refuse(at, "there is more than the " + std::to_string(entry) + " entries announced");
        }
        const auto too_few = [&](int k) {
            piece.refuse(
                at, "an entry must have " + std::to_string(numbers) + " numbers, and this has " + std::to_string(k));
        };
        std::uint64_t indices[2] = {};
        for (int k = 0; k < lines_.indices; ++k) {
            at = skip_blanks(at);
            if (*at == '\n') return too_few(k);
            const char* const end = read_whole(at, piece.end, indices[k]);
            if (end == nullptr || indices[k] - 1 >= static_cast<std::uint64_t>(lengths[k])) {
                return piece.refuse(at, quoted(at) + range_of(kNames[k], lengths[k]));
            }
            places[k][entry] = static_cast<Index>(indices[k] - 1);
            at = end;
        }
        if (lines_.indices == 2) {
            piece.has_below |= indices[0] > indices[1];
            piece.has_above |= indices[0] < indices[1];
        }
        for (int k = 0; k < lines_.values; ++k) {
            at = skip_blanks(at);
            if (*at == '\n') return too_few(lines_.indices + k);
            double& value = values_[entry * lines_.values + k];
            const char* const end =
                lines_.are_whole ? read_whole(at, piece.end, value) : read_real(at, piece.end, value);
            if (end == nullptr) {
                return piece.refuse(at, quoted(at) + (lines_.are_whole ? " is no whole number" : " is no number"));
            }
            if (is_too_large(at, value)) return piece.refuse(at, quoted(at) + " is too large for float64");
            at = end;
        }
        at = skip_blanks(at);
        if (*at != '\n') {
            return piece.refuse(at, quoted(at) + " is left over: an entry has " + std::to_string(numbers) +
                                        (numbers == 1 ? " number" : " numbers"));
        }
        ++entry;
    }
}

template class EntryReader<std::int32_t>;
template class EntryReader<std::int64_t>;

}  // namespace spmvgpu
