// What builders of formats are written in, on the CPU: every primitive beside a loop that says the same, and what a GPU
// does in another way than the CPU, by the same passes.
//
// Usage: passes CASE; silent if all is well.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/passes/csr_algebra.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "formats/csr/build.hpp"
#include "formats/papers/hyb/build.hpp"
#include "formats/shared/spans_build.hpp"
#include "gpu/gather.hpp"
#include "multigrid/coarsen.hpp"
#include "multigrid/products.hpp"
#include "no_gpu.hpp"

namespace {

using namespace spmvgpu;

// The CPU with the chains of a GPU, where every read() waits.
struct JumpingPasses : HostPasses {
    int reads = 0;

    template <class Next>
    Array<index_t> chain(index_t n, const Next& next) {
        return chain_by_jumps(*this, n, next);
    }
    template <class T>
    T read(const T* from) {
        ++reads;
        return *from;
    }
};

// The CPU with the text of a GPU where the CPU has one of its own.
struct GpuText : HostPasses {};

HostPasses passes;
std::mt19937 random_bits(11);

void expect(bool holds, const std::string& what) {
    if (!holds) throw std::logic_error(what);
}

template <class T>
std::vector<T> list(const Array<T>& array) {
    return {array.begin(), array.end()};
}

int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }

// Sizes around those of a word, and some that are cut into pieces.
const std::vector<index_t> kSizes{0, 1, 2, 31, 32, 33, 1000, 300'000};

void scan() {
    for (const index_t n : kSizes) {
        std::vector<index_t> counts(n + 1, 77), expected(n + 1, 0);
        for (index_t i = 0; i < n; ++i) {
            counts[i] = draw(0, 9);
            expected[i + 1] = expected[i] + counts[i];
        }
        expect(passes.scan(counts.data(), n) == expected[n], "the total");
        expect(counts == expected, "the sums");
    }
}

void reduce() {
    for (const index_t n : kSizes) {
        const auto sum = passes.reduce<std::int64_t>(n, [](std::int64_t i) { return i; });
        expect(sum == std::int64_t(n) * (n - 1) / 2, "a sum");
        const auto most = largest<index_t>(passes, n, [n](std::int64_t i) { return (i * 7) % (n + 1); });
        index_t expected = 0;
        for (std::int64_t i = 0; i < n; ++i) expected = std::max(expected, static_cast<index_t>((i * 7) % (n + 1)));
        expect(most == expected, "a maximum");
        auto added = Array<std::int64_t>::from(std::vector<std::int64_t>{5});
        passes.add(added.data(), n, [](std::int64_t i) { return i; });
        expect(added[0] == 5 + sum, "a sum that is added");
    }
}

void selected() {
    for (const index_t n : kSizes) {
        const int every = draw(1, 5);
        std::vector<index_t> expected;
        for (index_t i = 0; i < n; i += every) expected.push_back(i);
        const auto found = select(passes, n, [every](std::int64_t i) { return i % every == 0; });
        expect(list(found) == expected, "what was selected");
        std::array<std::vector<index_t>, 3> kinds;  // and a kind 3, which is not listed
        for (index_t i = 0; i < n; ++i) {
            if (i / every % 4 < 3) kinds[i / every % 4].push_back(i);
        }
        std::array<std::int64_t, 3> counts;
        std::transform(kinds.begin(), kinds.end(), counts.begin(), [](const auto& kind) { return kind.size(); });
        const auto lists = list_kinds<3>(passes, n, counts, [every](std::int64_t i) { return int(i / every % 4); });
        for (int kind = 0; kind < 3; ++kind) expect(list(lists[kind]) == kinds[kind], "the numbers of a kind");
    }
}

// Nodes of rows with the columns of their neighbours, as they are described.
void nodes() {
    constexpr index_t kLongest = 4;
    for (const index_t rows : {0, 1, 9, 400, 30'000}) {
        for (const int longest : {1, 3, 16, 60, 200}) {
            std::vector<index_t> offsets{0}, columns;
            for (index_t row = 0; row < rows;) {
                const index_t together = std::min(draw(1, longest), rows - row), length = draw(0, 5),
                              first = draw(0, 1);
                for (index_t i = 0; i < together; ++i) {
                    for (index_t k = 0; k < length; ++k) columns.push_back(2 * row + first + 3 * k);
                    offsets.push_back(static_cast<index_t>(columns.size()));
                }
                row += together;
            }
            const auto same_as_before = [&](index_t row) {
                const index_t begin = offsets[row], length = offsets[row + 1] - begin;
                return row > 0 && length == begin - offsets[row - 1] &&
                       std::equal(columns.begin() + begin, columns.begin() + begin + length,
                                  columns.begin() + (begin - length));
            };
            std::vector<index_t> expected;
            for (index_t first = 0, end = 0; first < rows; first = end) {
                for (end = first + 1; end < rows && same_as_before(end); ++end) {
                }
                const bool is_long = offsets[first + 1] - offsets[first] > kLongest;
                for (index_t row = first; row < end; ++row) {
                    const index_t together = end - first, nodes = (together + 7) / 8;
                    bool begins = is_long || (together > 64 && row % 8 == 0);
                    for (index_t node = 0; node < nodes && together <= 64; ++node) {
                        begins = begins || row == first + (together * node + nodes - 1) / nodes;
                    }
                    if (begins || row == first) expected.push_back(row);
                }
            }
            const CsrPattern csr{rows, 0, static_cast<index_t>(columns.size()), offsets.data(), columns.data()};
            const auto found = Builder<Csr<float>, HostPasses>::find_nodes(passes, csr, kLongest);
            expect(found.size() == expected.size(), "the number of nodes");
            expected.push_back(rows);
            for (std::size_t i = 0; i < found.size(); ++i) {
                const index_t row = expected[i], length = offsets[row + 1] - offsets[row];
                const bool is_long = length > kLongest;  // and cut
                expect(found[i].row == row && found[i].begin == offsets[row], "where a node begins");
                expect(found[i].rows == (is_long ? 0 : expected[i + 1] - row), "the rows of a node");
                expect(found[i].length == (is_long ? 0 : length), "the length of the rows of a node");
            }
        }
    }
}

void sets() {
    for (const index_t n : kSizes) {
        std::vector<Word> words(words_for(n), 0);
        std::vector<index_t> numbers, expected;
        for (index_t i = 0; i < n; i += draw(1, 40)) numbers.push_back(i);
        Word* const set = words.data();
        const index_t* const number = numbers.data();
        passes.each(static_cast<std::int64_t>(numbers.size()),
                    [=](std::int64_t i) { add_to_set(set, number[i]), add_to_set(set, number[i]); });
        for (const index_t i : numbers) expected.push_back(i - 5);
        expect(list(list_set(passes, words.data(), n, 5)) == expected, "what is in a set");
    }
}

void order() {
    for (const index_t n : kSizes) {
        for (const index_t window : {1, 7, 256, std::max(n, 1)}) {
            std::vector<index_t> keys(n), expected(n);
            for (index_t i = 0; i < n; ++i) keys[i] = draw(0, 20), expected[i] = i;
            std::stable_sort(expected.begin(), expected.end(), [&](index_t a, index_t b) {
                return std::pair(a / window, keys[a]) < std::pair(b / window, keys[b]);
            });
            const index_t* const key = keys.data();
            const auto found = passes.order_by_key(n, window, 20, [=](index_t i) { return key[i]; });
            expect(list(found) == expected, "the order in windows of " + std::to_string(window));
        }
    }
}

// Numbers in runs with gaps between them, every group with one of three tallies.
template <class Number>
struct Drawn {
    Tally* tally;
    index_t runs;
    const Run* run_list;
    const Number* numbers;

    Run run(index_t i) const { return run_list[i]; }
    Number number(const Run& /*run*/, index_t k) const { return numbers[k]; }
};

template <class Number>
void distinct_of(Number largest) {
    for (const index_t groups : {0, 1, 3, 500}) {
        for (const int longest : {0, 1, 300}) {
            std::vector<Number> numbers(4000);
            for (Number& number : numbers) number = largest / draw(1, 100) - draw(0, 50);
            std::vector<std::vector<Run>> runs(groups);
            std::int64_t most = 0;
            Tally expected[3], found[3];
            for (index_t g = 0; g < groups; ++g) {
                std::set<Number> different;
                std::int64_t all = 0;
                for (int i = draw(0, 5); i > 0; --i) {
                    const index_t begin = draw(0, 3600), end = begin + draw(0, longest);
                    runs[g].push_back({begin, end});
                    different.insert(numbers.begin() + begin, numbers.begin() + end);
                    all += end - begin;
                }
                most = std::max(most, all);
                expected[g % 3].different += static_cast<std::int64_t>(different.size());
                expected[g % 3].all += all;
            }
            passes.distinct<Drawn<Number>>(groups, most, [&](std::int64_t g) {
                return Drawn<Number>{found + g % 3, static_cast<index_t>(runs[g].size()), runs[g].data(),
                                     numbers.data()};
            });
            for (int t = 0; t < 3; ++t) {
                expect(found[t].different == expected[t].different, "the different numbers");
                expect(found[t].all == expected[t].all, "all numbers");
            }
        }
    }
}

void distinct() {
    distinct_of<index_t>(std::numeric_limits<index_t>::max());
    distinct_of<std::int64_t>((std::int64_t(1) << kNumberBits) - 1);
    NumberSet set(20);
    for (int round = 0; round < (1 << 24) + 3; ++round) {  // until the rounds begin again, and then some
        set.clear();
        set.add(5), set.add(5), set.add(round % 2);
        expect(set.count() == 2, "a set that was emptied often");
    }
}

void chains() {
    JumpingPasses jumping;
    for (const index_t n : kSizes) {
        for (const int step : {1, 2, 50}) {
            std::vector<index_t> nexts(n), expected;
            for (index_t i = 0; i < n; ++i) nexts[i] = i + draw(1, step);
            for (index_t i = 0; i < n; i = nexts[i]) expected.push_back(i);
            const index_t* const next = nexts.data();
            const auto follow = [=](index_t i) { return next[i]; };
            expect(list(passes.chain(n, follow)) == expected, "a chain");
            jumping.reads = 0;
            expect(list(jumping.chain(n, follow)) == expected, "a chain by jumps");
            expect(jumping.reads <= 2, "at most as many waits as a chain of 2^20 takes");
        }
    }
}

void gathers() {
    for (const index_t length : kSizes) {
        std::vector<index_t> shuffled(length);
        std::iota(shuffled.begin(), shuffled.end(), 0);
        std::shuffle(shuffled.begin(), shuffled.end(), random_bits);
        const index_t* const maps[] = {nullptr, shuffled.data()};
        for (const index_t count : {1, 3}) {
            for (const bool by_rows : {false, true}) {
                for (const index_t* const map : maps) {
                    std::vector<double> given(std::size_t(length) * count), packed(given.size()), back(given.size(), 2);
                    std::iota(given.begin(), given.end(), 1.0);
                    const auto from = Columns<double>::packed(given.data(), length, count, by_rows);
                    const auto to = Columns<double>::packed(back.data(), length, count, by_rows);
                    gpu::gather(packed.data(), from.read_only(), map, length, Device{}, nullptr);
                    for (index_t k = 0; k < length * count; ++k) {
                        const index_t row = map == nullptr ? k / count : map[k / count];
                        expect(packed[k] == from.column(k % count)[row * from.row_stride], "what was packed");
                    }
                    gpu::scatter(to, packed.data(), map, length, 0.5, Device{}, nullptr);
                    for (std::size_t k = 0; k < back.size(); ++k) expect(back[k] == given[k] + 1, "what was unpacked");
                }
            }
        }
    }
}

// Row offsets of rows that are mostly short, some of them empty and a few of them long.
std::vector<index_t> draw_rows(index_t rows, int longest) {
    std::vector<index_t> offsets(rows + 1, 0);
    for (index_t row = 0; row < rows; ++row) {
        offsets[row + 1] = offsets[row] + (draw(0, 99) == 0 ? draw(0, longest) : draw(0, 12));
    }
    return offsets;
}

void entries() {
    for (const index_t rows : {1, 5, 1000, 100'000}) {
        const auto offsets = draw_rows(rows, 3000);
        const index_t nnz = offsets[rows];
        std::vector<index_t> seen(nnz, -1);
        index_t* const to = seen.data();
        passes.each_entry(rows, offsets.data(), nnz, [=](index_t row, index_t k) { to[k] = row; });
        for (index_t row = 0; row < rows; ++row) {
            for (index_t k = offsets[row]; k < offsets[row + 1]; ++k) expect(seen[k] == row, "the row of an entry");
        }
    }
    for (const index_t rows : {0, 1, 5, 1000}) {
        const auto offsets = draw_rows(rows, 300);
        std::int64_t expected = 0;
        for (index_t row = 0; row < rows; ++row) {
            double sum = 0;
            for (index_t k = offsets[row]; k < offsets[row + 1]; ++k) sum += 1.0 / (k + 1);
            expected += static_cast<std::int64_t>(1e6 * sum) * row;
        }
        auto added = Array<std::int64_t>::from(std::vector<std::int64_t>{0});
        passes.add_rows<double>(
            added.data(), rows, offsets.data(), offsets[rows], [](index_t k) { return 1.0 / (k + 1); },
            [](index_t row, double sum) { return static_cast<std::int64_t>(1e6 * sum) * row; });
        expect(added[0] == expected, "a sum over rows");
    }
}

// The tiles as they are described, one row after the other.
CsrPlan plan_by_rows(const std::vector<index_t>& offsets, index_t tile, int processors) {
    const auto rows = static_cast<index_t>(offsets.size()) - 1;
    const index_t longest = Tile::longest_row(tile, rows, offsets.back());
    const index_t segment = Tile::segment(tile, offsets.back(), processors);
    CsrPlan plan;
    std::vector<Tile> tiles;
    std::vector<RowSpan> spans;
    for (index_t row = 0; row < rows;) {
        const index_t begin = offsets[row];
        if (offsets[row + 1] - begin > longest) {
            const index_t first = plan.segments;
            for (index_t nz = begin; nz < offsets[row + 1]; nz += segment, ++plan.segments) {
                const auto nonzeros = static_cast<std::uint16_t>(std::min(segment, offsets[row + 1] - nz));
                tiles.push_back({static_cast<index_t>(spans.size()), nz, 0, nonzeros, plan.segments});
            }
            spans.push_back({row++, first, plan.segments - 1});
            continue;
        }
        index_t end = row + 1;
        while (end < rows && end - row < tile && offsets[end + 1] - begin <= tile) ++end;
        const index_t limit = Tile::kMaxPerLane * Features::lanes(end - row, Tile::threads(tile));
        bool has_long_rows = false;
        for (index_t r = row; r < end; ++r) has_long_rows = has_long_rows || offsets[r + 1] - offsets[r] > limit;
        tiles.push_back({row, begin, static_cast<std::uint16_t>(end - row),
                         static_cast<std::uint16_t>(offsets[end] - begin), has_long_rows});
        row = end;
    }
    std::ranges::stable_sort(tiles, {}, [](const Tile& t) { return std::min<int>(t.rows, 2); });
    plan.tiles = Array<Tile>::from(tiles);
    plan.spans = Array<RowSpan>::from(spans);
    return plan;
}

template <class Passes>
void compare_tiles(Passes& own, const std::vector<index_t>& offsets, index_t tile, int processors) {
    const CsrPlan expected = plan_by_rows(offsets, tile, processors);
    const CsrPattern csr{static_cast<index_t>(offsets.size()) - 1, 0, offsets.back(), offsets.data(), nullptr};
    CsrPlan found;
    found.tuning.tile = tile;
    Builder<Csr<float>, Passes>::plan_tiles(own, found, csr, processors);
    const auto same_tile = [](const Tile& a, const Tile& b) {
        return a.row_begin == b.row_begin && a.nz_begin == b.nz_begin && a.rows == b.rows && a.nonzeros == b.nonzeros &&
               a.note == b.note;
    };
    const auto same_span = [](const RowSpan& a, const RowSpan& b) {
        return a.row == b.row && a.first == b.first && a.last == b.last;
    };
    expect(found.segments == expected.segments, "the segments");
    expect(std::equal(found.tiles.begin(), found.tiles.end(), expected.tiles.begin(), expected.tiles.end(), same_tile),
           "the tiles");
    expect(std::equal(found.spans.begin(), found.spans.end(), expected.spans.begin(), expected.spans.end(), same_span),
           "the cut rows");
}

void tiles() {
    JumpingPasses jumping;
    std::vector<std::vector<index_t>> matrices{{0},       {0, 0},    {0, 1},
                                               {0, 4096}, {0, 4097}, {0, 100'000, 100'000, 100'001}};
    matrices.emplace_back(10'000, 0);  // empty rows alone
    for (const index_t rows : {3, 700, 60'000}) {
        for (const int longest : {20, 2000, 30'000}) matrices.push_back(draw_rows(rows, longest));
    }
    for (const index_t rows : {1, 40}) {  // long rows alone
        matrices.emplace_back(rows + 1, 0);
        for (index_t row = 0; row < rows; ++row) matrices.back()[row + 1] = matrices.back()[row] + draw(0, 5000);
    }
    for (const auto& offsets : matrices) {
        for (const index_t tile : {256, 1024, 4096}) {
            for (const int processors : {1, 132}) {  // long rows are cut more finely where there are many
                compare_tiles(passes, offsets, tile, processors);
                compare_tiles(jumping, offsets, tile, processors);
            }
        }
    }
}

// The widest ELL part that rows enough reach, by trying every width.
void widths() {
    constexpr index_t kLeast = 4096;
    for (const index_t rows : {0, 100, 4095, 4096, 12'288, 50'000}) {
        for (const int longest : {0, 1, 2, 9, 10, 300, 3000}) {
            std::vector<index_t> offsets(rows + std::size_t(1), 0);
            for (index_t row = 0; row < rows; ++row) offsets[row + 1] = offsets[row] + draw(0, draw(0, longest));
            const index_t enough = std::max(kLeast, (rows + 2) / 3);
            std::vector<index_t> reaching(longest + 2, 0);
            for (index_t row = 0; row < rows; ++row) {
                for (index_t width = 1; width <= offsets[row + 1] - offsets[row]; ++width) ++reaching[width];
            }
            index_t expected = 0;
            while (reaching[expected + 1] >= enough) ++expected;
            expect(choose_ell_width(passes, rows, offsets.data()) == expected, "the width");
        }
    }
    const std::vector<index_t> offsets{0, std::numeric_limits<index_t>::max()};  // too few rows for any
    expect(choose_ell_width(passes, 1, offsets.data()) == 0, "no width");
}

// Rows that parts of the entries share, as they are described.
void spans() {
    for (const index_t rows : {1, 40, 20'000}) {
        for (const int longest : {0, 900, 20'000}) {
            const auto offsets = draw_rows(rows, longest);
            for (const index_t part : {1, 64, 1024}) {
                const index_t nnz = offsets[rows];
                const auto bounds = find_bounds(passes, rows, offsets.data(), nnz, part);
                std::vector<RowSpan> expected;
                for (index_t row = 0; row < rows; ++row) {
                    if (offsets[row] == offsets[row + 1]) continue;
                    const index_t first = offsets[row] / part, last = (offsets[row + 1] - 1) / part;
                    expect(bounds[first].first <= row && row <= bounds[first].last, "the bounds of a part");
                    if (first < last) expected.push_back({row, first, last});
                }
                const auto found = find_spans(passes, bounds);
                expect(std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                                  [](const RowSpan& a, const RowSpan& b) {
                                      return a.row == b.row && a.first == b.first && a.last == b.last;
                                  }),
                       "the rows that parts share");
            }
        }
    }
}

// Small arrays in which numbers were changed, beside the definition.
void canonical() {
    for (int round = 0; round < 20'000; ++round) {
        const index_t rows = draw(0, 4), cols = draw(0, 5);
        std::vector<index_t> offsets{0}, columns;
        for (index_t row = 0; row < rows; ++row) {
            for (index_t col = 0; col < cols; ++col) {
                if (draw(0, 2) == 0) columns.push_back(col);
            }
            offsets.push_back(static_cast<index_t>(columns.size()));
        }
        const auto nnz = static_cast<index_t>(columns.size());
        for (int change = draw(0, 2); change > 0; --change) {
            auto& changed = nnz > 0 && draw(0, 1) == 0 ? columns : offsets;
            changed[draw(0, static_cast<int>(changed.size()) - 1)] = draw(-2, 7);
        }
        bool expected = offsets[0] == 0 && offsets[rows] == nnz && std::is_sorted(offsets.begin(), offsets.end());
        for (const index_t col : columns) expected = expected && 0 <= col && col < cols;
        for (index_t row = 0; expected && row < rows; ++row) {
            for (index_t k = offsets[row] + 1; k < offsets[row + 1]; ++k) {
                expected = expected && columns[k - 1] < columns[k];
            }
        }
        expect(is_canonical(passes, rows, cols, nnz, offsets.data(), columns.data()) == expected, "whether it is");
    }
}

// As a GPU transposes; the CPU does it in another way.
void transposes() {
    for (const index_t rows : {0, 1, 60, 5000}) {
        const index_t cols = rows / 2 + 3;
        const auto offsets = draw_rows(rows, 40);
        const index_t nnz = offsets[rows];
        CsrMatrix<double> csr = CsrMatrix<double>::allocate(rows, cols, nnz);
        std::copy(offsets.begin(), offsets.end(), csr.row_offsets.begin());
        std::vector<std::vector<std::pair<index_t, double>>> columns(cols);
        for (index_t row = 0; row < rows; ++row) {
            for (index_t k = offsets[row]; k < offsets[row + 1]; ++k) {
                csr.col_indices[k] = draw(0, cols - 1);  // in disorder, and twice: that changes nothing here
                csr.values[k] = k;
                columns[csr.col_indices[k]].emplace_back(row, k);
            }
        }
        const CsrMatrix<double> found = transpose_by_order(passes, csr);
        index_t k = 0;
        for (index_t col = 0; col < cols; ++col) {
            expect(found.row_offsets[col] == k, "where a column begins");
            for (const auto& [row, value] : columns[col]) {
                expect(found.col_indices[k] == row && found.values[k] == value, "an entry of the transpose");
                ++k;
            }
        }
        expect(found.row_offsets[cols] == nnz && found.rows == cols && found.cols == rows, "the shape");
    }
}

// A diagonally dominant matrix whose pattern is symmetric, with a row of every length.
template <class T>
CsrMatrix<T> draw_matrix(index_t rows, index_t longest) {
    std::vector<std::map<index_t, T>> entries(rows);
    for (index_t row = 0; row < rows; ++row) {
        const index_t length = row % 97 == 0 ? draw(1, longest) : draw(0, 5);
        for (index_t i = 0; i < length; ++i) {
            const index_t col = row % 97 == 0 ? draw(0, rows - 1) : std::clamp(row + draw(-9, 9), 0, rows - 1);
            const auto value = T(static_cast<Real<T>>(-draw(1, 1000)) / 1000);
            entries[row][col] = entries[col][row] = value;
        }
    }
    std::vector<index_t> offsets{0}, columns;
    std::vector<T> values;
    for (index_t row = 0; row < rows; ++row) {
        entries[row][row] = T(static_cast<Real<T>>(1 + entries[row].size()));
        for (const auto& [col, value] : entries[row]) {
            columns.push_back(col);
            values.push_back(value);
        }
        offsets.push_back(static_cast<index_t>(columns.size()));
    }
    return {rows,
            rows,
            static_cast<index_t>(columns.size()),
            Array<index_t>::from(offsets),
            Array<index_t>::from(columns),
            Array<T>::from(values)};
}

template <class Number>
void expect_same(const Array<Number>& one, const Array<Number>& other, const char* what) {
    const bool same = one.size() == other.size() &&
                      std::equal(one.begin(), one.end(), other.begin(), [](const Number& a, const Number& b) {
                          if constexpr (std::is_integral_v<Number>) {
                              return a == b;
                          } else {
                              return same_bits(a, b);
                          }
                      });
    expect(same, what);
}

template <class T>
void expect_same(const CsrMatrix<T>& one, const CsrMatrix<T>& other, const char* what) {
    expect_same(one.row_offsets, other.row_offsets, what);
    expect_same(one.col_indices, other.col_indices, what);
    expect_same(one.values, other.values, what);
}

// Of matrices with hubs, also where the columns of the left one begin later.
void sums() {
    for (const auto& [rows, longest] : {std::tuple{1, 1}, std::tuple{600, 40}, std::tuple{9000, 3000}}) {
        const CsrMatrix<double> left = draw_matrix<double>(rows, longest);
        for (const index_t shift : {0, 5}) {
            CsrMatrix<double> right = draw_matrix<double>(rows, longest);
            right.cols += shift;
            const Sum<double> sum{left, right, shift};
            GpuText gpu_text;
            expect_same(sum(passes), sum(gpu_text), "a sum");
        }
        const Sum<double> twice{left, left, 0};
        GpuText gpu_text;
        expect_same(twice(passes), twice(gpu_text), "a sum of matrices with the same pattern");
    }
}

// Of matrices with hubs, and with few columns, of which rows have many terms.
void products() {
    for (const auto& [rows, longest] : {std::tuple{1, 1}, std::tuple{600, 40}, std::tuple{9000, 3000}}) {
        const CsrMatrix<double> left = draw_matrix<double>(rows, longest);
        for (const index_t cols : {1, 17, 64, 400, rows}) {
            CsrMatrix<double> right = draw_matrix<double>(rows, longest);
            std::vector<index_t> offsets{0}, columns;
            for (index_t row = 0; row < rows; ++row) {
                for (index_t k = right.row_offsets[row]; k < right.row_offsets[row + 1]; ++k) {
                    if (right.col_indices[k] < cols) columns.push_back(right.col_indices[k]);
                }
                offsets.push_back(static_cast<index_t>(columns.size()));
            }
            right.cols = cols, right.nnz = static_cast<index_t>(columns.size());
            right.row_offsets = Array<index_t>::from(offsets), right.col_indices = Array<index_t>::from(columns);
            const multigrid::SparseProduct<double> product{left, right};
            GpuText gpu_text;
            expect_same(product(passes), product(gpu_text), "a product");
        }
    }
}

// Of several levels, with nodes of one row and of several, and with hubs whose products need tables of every size.
template <class T>
void hierarchies_of() {
    for (const auto& [rows, longest, block] :
         {std::tuple{600, 40, 1}, std::tuple{9000, 3000, 1}, std::tuple{3000, 200, 3}}) {
        multigrid::Settings settings;
        settings.strength = 0.02;
        CsrMatrix<T> A = draw_matrix<T>(rows, longest);
        multigrid::Nodes nodes{rows / block, {}, {}, {}};
        if (block > 1) {
            nodes.of_row = Array<index_t>(rows);
            nodes.first_row = Array<index_t>(std::size_t(rows) / block + 1);
            for (index_t row = 0; row < rows; ++row) nodes.of_row[row] = row / block;
            for (index_t node = 0; node <= nodes.count; ++node) nodes.first_row[node] = node * block;
        }
        const index_t modes = block > 1 ? 4 : 1;
        multigrid::NearNullSpace<T> near_null{modes, Array<Wide<T>>(std::size_t(rows) * modes)};
        for (auto& entry : near_null.entries) entry = Wide<T>(1 + draw(0, 3));
        for (int level = 0; level < 3 && A.rows > 20; ++level) {
            const multigrid::Coarsen<T> coarsen{A, nodes, near_null, 0.0, settings, false};
            GpuText gpu_text;
            auto one = coarsen(passes);
            auto other = coarsen(gpu_text);
            expect(one.grid.largest_eigenvalue == other.grid.largest_eigenvalue, "an eigenvalue");
            expect(level > 0 || one.coarse.rows > 0, "a coarser level");
            expect_same(one.grid.aggregates, other.grid.aggregates, "aggregates");
            expect_same(one.grid.P, other.grid.P, "a prolongator");
            expect_same(one.grid.R, other.grid.R, "a restriction");
            expect_same(one.coarse, other.coarse, "a coarse matrix");
            A = one.coarse;
            nodes = one.grid.tentative.nodes;
            near_null = one.grid.tentative.near_null;
        }
    }
}

void hierarchies() {
    hierarchies_of<double>();
    hierarchies_of<Complex<float>>();
}

}  // namespace

int main(int, char** arguments) {
    const std::map<std::string, std::function<void()>> cases{
        {"canonical", canonical}, {"distinct", distinct}, {"scan", scan},
        {"reduce", reduce},       {"select", selected},   {"sets", sets},
        {"order", order},         {"chains", chains},     {"entries", entries},
        {"tiles", tiles},         {"spans", spans},       {"transposes", transposes},
        {"widths", widths},       {"nodes", nodes},       {"gathers", gathers},
        {"sums", sums},           {"products", products}, {"hierarchies", hierarchies}};
    try {
        cases.at(arguments[1])();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
