#include <pybind11/numpy.h>

#include <string>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "core/canonical.hpp"
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
}

}  // namespace spmvgpu
