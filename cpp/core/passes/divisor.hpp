// Division by a small number that is not known before the program runs, as a multiplication.
#pragma once

#include <cstdint>

#include "core/passes/bits.hpp"

namespace spmvgpu {

// Divides numbers of 31 bits by 1, 2, 3, 4 or 6. With r = 2^32 / by rounded up, n * r / 2^32 is n / by and a little
// more: its whole part is exact while n * (r * by - 2^32) is less than 2^32, and that difference is 0 or 2 for these
// divisors.
class Divisor {
public:
    explicit Divisor(unsigned by)
        : by_(by), reciprocal_(static_cast<unsigned>(((std::uint64_t(1) << 32) + by - 1) / by)) {}

    SPMVGPU_IN_BODY unsigned by() const { return by_; }
    SPMVGPU_IN_BODY unsigned quotient(unsigned n) const {
        return by_ == 1 ? n : static_cast<unsigned>((std::uint64_t(n) * reciprocal_) >> 32);
    }
    SPMVGPU_IN_BODY unsigned remainder(unsigned n) const { return n - quotient(n) * by_; }

private:
    unsigned by_, reciprocal_;
};

}  // namespace spmvgpu
