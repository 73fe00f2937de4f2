// IndexMap as Python gives and gets them: the first of neighbours as a number, anything else as an array.
#pragma once

#include <pybind11/numpy.h>

#include <map>
#include <variant>

#include "matrix/index_map.hpp"

namespace spmvgpu {

using Indices = pybind11::array_t<index_t, pybind11::array::c_style>;
using IndexMapArgument = std::variant<index_t, Indices>;

// Reads index maps; parts that share a NumPy array share its copy.
class IndexMapReader {
public:
    IndexMap read(const IndexMapArgument& given) {
        if (const auto* first = std::get_if<index_t>(&given)) return {*first, {}};
        const auto& array = std::get<Indices>(given);
        const auto [found, is_new] = known_.try_emplace(array.ptr());
        if (is_new) found->second = IndexMap::from(array.data(), array.size());
        return found->second;
    }

private:
    std::map<PyObject*, IndexMap> known_;
};

inline IndexMapArgument to_python(const IndexMap& map) {
    if (!map.scattered()) return map.first;
    Indices array(map.indices.size());
    copy_bytes(array.mutable_data(), {}, map.indices.data(), map.indices.device(), map.indices.bytes());
    return array;
}

}  // namespace spmvgpu
