// The refusal that all padded formats share.
#pragma once

#include <cstdint>
#include <string>

namespace spmvgpu {

// Throws FormatError if `slots` stored slots for `nnz` non-zeros are more than max_padding allows. Matrices below some
// ten thousand slots always pass: there padding costs nothing worth refusing.
void check_padding(const std::string& format, std::int64_t slots, std::int64_t nnz, double max_padding,
                   std::size_t bytes, std::size_t csr_bytes);

}  // namespace spmvgpu
