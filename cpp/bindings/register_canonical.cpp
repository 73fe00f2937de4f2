#include <pybind11/numpy.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "core/canonical.hpp"
#include "core/matrix_market.hpp"
#include "formats/shared/symmetry.hpp"
#include "solvers/fill_bound.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// (indptr, indices, whether they are canonical): checked copies of a caller's arrays.
template <class In, class Out>
auto copy_pattern(const Dense<In>& indptr, const Dense<In>& indices, std::int64_t cols, const std::string& axis) {
    const auto rows = static_cast<std::int64_t>(indptr.size()) - 1;
    if (rows < 0) throw std::invalid_argument("indptr is empty; it needs an entry more than there are rows");
    Array<Out> row_offsets(indptr.size()), col_indices(indices.size());
    bool is_canonical = false;
    {
        const GilRelease release;
        copy_row_offsets(indptr.data(), rows, indices.size(), row_offsets.data());
        is_canonical = copy_col_indices(indices.data(), row_offsets.data(), rows, cols, axis, col_indices.data());
    }
    return py::make_tuple(hand_over(row_offsets), hand_over(col_indices), is_canonical);
}

template <class In, class Out>
void register_copy(py::module_& module, const char* name) {
    module.def(name, &copy_pattern<In, Out>, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
               py::arg("cols"), py::arg("axis"), "Checked copies of CSR index arrays, and whether they are canonical.");
}

template <class Index>
void register_sum(py::module_& module) {
    module.def(
        "sum_duplicates",
        [](Dense<Index>& indptr, Dense<Index>& indices, const py::array& data) {
            Index* const row_offsets = indptr.mutable_data();
            Index* const col_indices = indices.mutable_data();
            const auto rows = static_cast<std::int64_t>(indptr.size()) - 1;
            if (rows < 0 || indices.size() != data.size() || row_offsets[rows] != data.size())
                throw std::invalid_argument("inconsistent CSR arrays");
            return with_value_type(data.dtype(), [&]<class T>() {
                T* const values = array_as<Dense<T>>(data).mutable_data();
                const GilRelease release;
                return sum_duplicates(rows, row_offsets, col_indices, values);
            });
        },
        py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("data").noconvert(),
        "Sorts rows and adds up duplicates, in place; returns the entries that are left.");
}

std::string asymmetry_of(const Dense<index_t>& indptr, const Dense<index_t>& indices, const py::array& data,
                         bool hermitian) {
    return with_value_type(data.dtype(), [&]<class T>() {
        const auto values = array_as<Dense<T>>(data);
        const auto csr = csr_view(indptr, indices, values, static_cast<index_t>(indptr.size() - 1));
        const GilRelease release;
        return asymmetry(csr, hermitian);
    });
}

// Rows and columns, from 0, and the numbers of the values. `text` outlives this.
template <class Index>
py::tuple entries_of(const EntryLines& lines, std::string_view text) {
    FileEntries<Index> found;
    {
        const GilRelease release;
        found = read_entries<Index>(lines, text.data(), text.data() + text.size());
    }
    return py::make_tuple(hand_over(found.row), hand_over(found.col), hand_over(found.values));
}

}  // namespace

void register_canonical(py::module_& module) {
    register_copy<std::int32_t, std::int32_t>(module, "copy_pattern");
    register_copy<std::int64_t, std::int32_t>(module, "copy_pattern");
    register_copy<std::int64_t, std::int64_t>(module, "copy_wide_pattern");
    register_sum<std::int32_t>(module);
    register_sum<std::int64_t>(module);
    module.def("asymmetry", &asymmetry_of, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
               py::arg("data").noconvert(), py::arg("hermitian"),
               "Of which entry a square canonical matrix is not symmetric; empty where it is.");
    module.def(
        "fill_bound",
        [](const Dense<index_t>& indptr, const Dense<index_t>& indices, double most) {
            const auto rows = static_cast<index_t>(indptr.size() - 1);
            const CsrPattern pattern{rows, rows, static_cast<index_t>(indices.size()), indptr.data(), indices.data()};
            const GilRelease release;
            const FillBound bound = fill_bound(pattern, most);
            return std::pair{bound.entries, bound.operations};
        },
        py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("most"),
        "Most entries and operations of the factors of a square canonical matrix, in the order of its columns. "
        "It ends where there are more operations than `most`.");
    module.def(
        "read_entries",
        [](const py::buffer& text, const std::vector<std::int64_t>& lengths, int values, bool are_whole,
           std::int64_t entries, bool rest_is_ignored, std::int64_t line) {
            const py::buffer_info info = text.request();
            const bool are_bytes = info.ndim == 1 && info.itemsize == 1 && info.strides[0] == 1;
            if (!are_bytes || lengths.size() > 2 || values < 0 || values > 2 || entries < 0) {
                throw std::invalid_argument("there are no such lines");
            }
            const bool is_wide = std::ranges::any_of(
                lengths, [](std::int64_t n) { return n > std::numeric_limits<std::int32_t>::max(); });
            const auto read = is_wide ? entries_of<std::int64_t> : entries_of<std::int32_t>;
            const std::string_view content(static_cast<const char*>(info.ptr), static_cast<std::size_t>(info.size));
            return read({lengths, values, are_whole, entries, rest_is_ignored, line}, content);
        },
        py::arg("text"), py::kw_only(), py::arg("lengths"), py::arg("values"), py::arg("are_whole"), py::arg("entries"),
        py::arg("rest_is_ignored"), py::arg("line"),
        "The lines of a Matrix Market file as rows and columns, from 0, and the numbers of the values.");
}

}  // namespace spmvgpu
