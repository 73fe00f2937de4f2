// The check that half of a matrix determines all of it.
#pragma once

#include <string>

#include "core/csr_matrix.hpp"

namespace spmvgpu {

// How the entry (j, i) follows from (i, j): it is equal, or the conjugate. kAuto: as in the matrix.
enum class Symmetry { kAuto, kSymmetric, kHermitian };

// Zeros of any sign are equal here, and so are all NaN.
template <class T>
constexpr bool same_value(T a, T b) {
    return a == b || (a != a && b != b);
}

// Returns true if a and b may be mirror images of each other. In a Hermitian matrix zeros may have any sign: the
// literal -1j is -0 - 1j, and the conjugate of 1j is 0 - 1j.
template <class T>
constexpr bool are_mirrored(T a, T b, [[maybe_unused]] bool hermitian) {
    if constexpr (kIsComplex<T>) {
        if (hermitian) return same_value(a.real, b.real) && same_value(a.imag, -b.imag);
    }
    return same_bits(a, b);
}

// Throws the FormatError for a matrix of these sizes that lacks the symmetry that a format needs; `why` names the
// offending entry, see describe_asymmetry(), and is empty if the matrix is not square.
[[noreturn]] void refuse_unsymmetric(const std::string& format, index_t rows, index_t cols, std::size_t bytes,
                                     Symmetry asked, const std::string& why);

// Throws the FormatError for new values at positions k and `mirrored` in CSR order, which may be equal, that do not
// mirror each other.
[[noreturn]] void refuse_new_values(const std::string& format, index_t k, index_t mirrored, bool hermitian);

// Describes the mismatch of an entry and its mirror image, or of one whose mirror image is not stored (null).
template <class T>
std::string describe_asymmetry(index_t row, index_t col, T here, const T* there, bool hermitian);

// Describes an entry that makes a square matrix not symmetric, or not Hermitian; "" if it has the symmetry.
template <class T>
std::string asymmetry(const CsrMatrix<T>& matrix, bool hermitian);

}  // namespace spmvgpu
