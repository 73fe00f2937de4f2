// The check that half of a matrix stands for all of it.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// How the entry (j, i) follows from (i, j): it is the same, or its conjugate. kAuto: as the matrix has it.
enum class Symmetry { kAuto, kSymmetric, kHermitian };

// Zeros of any sign are equal here, and all NaN.
template <class T>
constexpr bool same_value(T a, T b) {
    return a == b || (a != a && b != b);
}

// Whether a and b may be mirror images of each other. In a Hermitian matrix zeros may have any sign: what is written as
// -1j is -0 - 1j, and the conjugate of 1j is 0 - 1j.
template <class T>
constexpr bool are_mirrored(T a, T b, [[maybe_unused]] bool hermitian) {
    if constexpr (kIsComplex<T>) {
        if (hermitian) return same_value(a.real, b.real) && same_value(a.imag, -b.imag);
    }
    return same_bits(a, b);
}

// Throws the FormatError for a matrix of so many rows, columns and bytes that is not as a format needs it; `why` says
// which entry is in the way, see describe_asymmetry(), and is empty where the matrix is not square.
[[noreturn]] void refuse_unsymmetric(const std::string& format, index_t rows, index_t cols, std::size_t bytes,
                                     Symmetry asked, const std::string& why);

// Throws the FormatError for new values of which those at positions k and `mirrored` in CSR order, one if they are
// equal, do not mirror each other as the format needs it.
[[noreturn]] void refuse_new_values(const std::string& format, index_t k, index_t mirrored, bool hermitian);

// Says what is wrong with an entry whose mirror image is another one, or null, which is not stored.
template <class T>
std::string describe_asymmetry(index_t row, index_t col, T here, const T* there, bool hermitian);

// Says of which entry a square matrix is not symmetric, or not Hermitian; "" where it is.
template <class T>
std::string asymmetry(const CsrMatrix<T>& matrix, bool hermitian);

}  // namespace spmvgpu
