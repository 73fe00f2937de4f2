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
bool is_sign(char c) { return c == '+' || c == '-'; }

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

// Returns the end of the word at `at`, which is read, or null if the word is no row or column number.
const char* read_index(const char* at, const char* end, std::uint64_t& value) {
    at += *at == '+';
    const auto [parsed, error] = std::from_chars(at, end, value);
    return error == std::errc() && ends_word(*parsed) ? parsed : nullptr;
}

// As C++ spells it: with e in place of Fortran's d and q, and before an exponent that has only its sign, as in 1.5-103.
std::string without_fortran(const char* at, const char* end) {
    std::string word;
    for (; at != end; ++at) {
        const bool is_exponent = *at == 'd' || *at == 'D' || *at == 'q' || *at == 'Q';
        if (is_sign(*at) && !word.empty() && (is_digit(word.back()) || word.back() == '.')) word += 'e';
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

// Like read_index, for values.
const char* read_value(const char* at, const char* end, bool is_whole, double& value) {
    if (is_whole && !std::all_of(at + is_sign(*at), word_end(at), is_digit)) return nullptr;
    if (*at == '+' && at[1] == '-') return nullptr;
    at += *at == '+';
    const auto [parsed, error] = std::from_chars(at, end, value);
    return error == std::errc() && ends_word(*parsed) ? parsed : read_unusual(at, value);
}

// Returns true if a word that was read as infinite is a number too large for double, and not "inf".
bool is_too_large(const char* at, double value) {
    at += is_sign(*at);
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

// Neighbouring lines of the text.
struct Piece {
    const char* begin;
    const char* end;
    std::int64_t entries = 0;
    std::int64_t first = 0;          // number of its first entry
    const char* wrong_at = nullptr;  // the first line that is wrong, or null
    std::string message;

    void count() {
        for (const char* at = begin; at != end; at = next_line(at, end)) entries += begins_entry(*skip_blanks(at));
    }

    void refuse(const char* at, std::string why) {
        wrong_at = at;
        message = std::move(why);
    }
};

template <class Index>
void parse(const EntryLines& lines, Piece& piece, FileEntries<Index>& found) {
    Index* const places[] = {found.row.data(), found.col.data()};
    static constexpr const char* kNames[] = {"row", "column"};
    const int indices = static_cast<int>(lines.lengths.size()), numbers = indices + lines.values;
    std::int64_t entry = piece.first;
    for (const char* at = piece.begin; at != piece.end; at = next_line(at, piece.end)) {
        at = skip_blanks(at);
        if (!begins_entry(*at)) continue;
        if (entry == lines.entries) {
            if (lines.rest_is_ignored) return;
            return piece.refuse(at, "there is more than the " + std::to_string(entry) + " entries announced");
        }
        for (int k = 0; k < numbers; ++k) {
            at = skip_blanks(at);
            if (*at == '\n') {
                return piece.refuse(at, "an entry must have " + std::to_string(numbers) + " numbers, and this has " +
                                            std::to_string(k));
            }
            const char* end = nullptr;
            if (k < indices) {
                std::uint64_t index = 0;
                end = read_index(at, piece.end, index);
                if (end == nullptr || index - 1 >= static_cast<std::uint64_t>(lines.lengths[k])) {
                    return piece.refuse(
                        at, quoted(at) + " is no " + kNames[k] + " from 1 to " + std::to_string(lines.lengths[k]));
                }
                places[k][entry] = static_cast<Index>(index - 1);
            } else {
                double& value = found.values[entry * lines.values + k - indices];
                end = read_value(at, piece.end, lines.are_whole, value);
                if (end == nullptr) {
                    return piece.refuse(at, quoted(at) + (lines.are_whole ? " is no whole number" : " is no number"));
                }
                if (is_too_large(at, value)) return piece.refuse(at, quoted(at) + " is too large for float64");
            }
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

}  // namespace

template <class Index>
FileEntries<Index> read_entries(const EntryLines& lines, const char* begin, const char* end) {
    if (begin == end) return {};
    if (end[-1] != '\n') throw std::invalid_argument("lines must end with a newline");
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
    std::int64_t total = 0;
    for (Piece& piece : pieces) {
        piece.first = std::min(total, lines.entries);
        total += piece.entries;
    }
    total = std::min(total, lines.entries);
    FileEntries<Index> found{Array<Index>(lines.lengths.empty() ? 0 : total),
                             Array<Index>(lines.lengths.size() < 2 ? 0 : total), Array<double>(total * lines.values)};
    for_each_piece(count, [&](std::int64_t p) { parse(lines, pieces[p], found); });
    for (const Piece& piece : pieces) {
        if (piece.wrong_at != nullptr) {
            const std::int64_t line = lines.line + std::count(begin, piece.wrong_at, '\n');
            throw std::invalid_argument("line " + std::to_string(line) + ": " + piece.message);
        }
    }
    return found;
}

template FileEntries<std::int32_t> read_entries(const EntryLines& lines, const char* begin, const char* end);
template FileEntries<std::int64_t> read_entries(const EntryLines& lines, const char* begin, const char* end);

}  // namespace spmvgpu
