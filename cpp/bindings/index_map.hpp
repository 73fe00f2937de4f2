// Places as Python gives and gets them: the first of neighbours as a number, anything else as an array.
#pragma once

#include <pybind11/numpy.h>

#include <map>
#include <variant>

#include "matrix/index_map.hpp"

namespace spmvgpu {

using Indices = pybind11::array_t<index_t, pybind11::array::c_style>;
using GivenPlaces = std::variant<index_t, Indices>;

// Reads places; parts that share a NumPy array share its copy.
class PlacesReader {
public:
    Places read(const GivenPlaces& given) {
        if (const auto* first = std::get_if<index_t>(&given)) return {*first, {}};
        const auto& array = std::get<Indices>(given);
        const auto [found, is_new] = known_.try_emplace(array.ptr());
        if (is_new) found->second = Places::from({array.data(), array.data() + array.size()});
        return found->second;
    }

private:
    std::map<PyObject*, Places> known_;
};

inline GivenPlaces to_python(const Places& places) {
    if (!places.scattered()) return places.first;
    Indices array(places.map.size());
    copy_bytes(array.mutable_data(), {}, places.map.data(), places.map.device(), places.map.bytes());
    return array;
}

}  // namespace spmvgpu
