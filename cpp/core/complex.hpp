// Complex<Real>: a complex number that CPU and GPU code share, laid out as in C, C++ and NumPy.
//
// std::complex is not used: its product looks for NaN and then calls a function of the compiler's run-time library,
// which prevents vectorisation and is slower still on a GPU. This product follows the textbook formula, as in NumPy and
// SciPy.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace spmvgpu {

// Aligned as its parts are, for NumPy promises no more. Without initialisers, so that it can lie in shared memory.
template <class Real>
struct Complex {
    using value_type = Real;

    Real real, imag;

    Complex() = default;
    constexpr Complex(Real real, Real imag = 0) : real(real), imag(imag) {}
    template <class Other>
    explicit constexpr Complex(Complex<Other> other)
        : real(static_cast<Real>(other.real)), imag(static_cast<Real>(other.imag)) {}

    constexpr Complex& operator+=(Complex other) {
        real += other.real;
        imag += other.imag;
        return *this;
    }

    constexpr Complex& operator-=(Complex other) {
        real -= other.real;
        imag -= other.imag;
        return *this;
    }

    friend constexpr Complex operator+(Complex a, Complex b) { return {a.real + b.real, a.imag + b.imag}; }
    friend constexpr Complex operator-(Complex a, Complex b) { return {a.real - b.real, a.imag - b.imag}; }
    friend constexpr Complex operator-(Complex a) { return {-a.real, -a.imag}; }
    // The product has two sums, and not a difference and a sum. GCC 12 turns the latter into an instruction that rounds
    // once where the source rounds twice (fmaddsub), whatever -ffp-contract says, in some loops and not in others.
    // Products with one vector and with several would then differ in their last bits.
    friend constexpr Complex operator*(Complex a, Complex b) {
        const Real minus_imag = -a.imag;
        return {a.real * b.real + minus_imag * b.imag, a.real * b.imag + a.imag * b.real};
    }
    // By a real number part by part, so that infinite parts leave the other one alone.
    friend constexpr Complex operator*(Real a, Complex b) { return {a * b.real, a * b.imag}; }
    friend constexpr Complex operator*(Complex a, Real b) { return b * a; }
    friend constexpr Complex operator/(Complex a, Real b) { return {a.real / b, a.imag / b}; }
    // The larger part of b is divided by first, so that no square over- or underflows (Smith 1962).
    friend constexpr Complex operator/(Complex a, Complex b) {
        const bool real_is_larger = (b.real < 0 ? -b.real : b.real) >= (b.imag < 0 ? -b.imag : b.imag);
        const Real large = real_is_larger ? b.real : b.imag, small = real_is_larger ? b.imag : b.real;
        const Real ratio = small / large, size = large + small * ratio;
        if (real_is_larger) return {(a.real + a.imag * ratio) / size, (a.imag - a.real * ratio) / size};
        return {(a.real * ratio + a.imag) / size, (a.imag * ratio - a.real) / size};
    }
    friend constexpr bool operator==(Complex a, Complex b) = default;
};

template <class T>
struct RealOf {
    using Type = T;
};
template <class Real>
struct RealOf<Complex<Real>> {
    using Type = Real;
};

template <class T>
using Real = typename RealOf<T>::Type;

template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<Real<T>, T>;

// Equal to the bit: 0.0 is not -0.0, and a NaN equals itself.
template <class T>
constexpr bool same_bits(T a, T b) {
    if constexpr (kIsComplex<T>) {
        return same_bits(a.real, b.real) && same_bits(a.imag, b.imag);
    } else {
        using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
    }
}

template <class T>
constexpr bool is_finite(T value) {
    if constexpr (kIsComplex<T>) {
        return is_finite(value.real) && is_finite(value.imag);
    } else {
        return value - value == 0;
    }
}

template <class T>
constexpr Real<T> real_part(T value) {
    if constexpr (kIsComplex<T>) {
        return value.real;
    } else {
        return value;
    }
}

// Multiplies by a factor of a whole product. A real factor scales part by part, so that 1 changes nothing, while (1 +
// 0i) * (inf + 0i) has NaN for its imaginary part.
template <class T>
constexpr T scaled(T factor, T value) {
    if constexpr (kIsComplex<T>) {
        if (factor.imag == 0) return {factor.real * value.real, factor.real * value.imag};
    }
    return factor * value;
}

// The entry (j, i) where (i, j) is stored: equal in a symmetric matrix, the conjugate in a Hermitian one.
template <class T>
struct Mirror {
    explicit constexpr Mirror(bool /*hermitian*/) {}
    constexpr T operator()(T value) const { return value; }
};
template <class R>
struct Mirror<Complex<R>> {
    R sign;

    explicit constexpr Mirror(bool hermitian) : sign(hermitian ? -1 : 1) {}
    constexpr Complex<R> operator()(Complex<R> value) const { return {value.real, sign * value.imag}; }
};

}  // namespace spmvgpu
