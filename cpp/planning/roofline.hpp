// The library's own model: a product takes as long as what it moves and waits for takes.
//
// The time of a format is a sum of terms (or their p-norm, where they overlap): a launch, bytes from memory and from
// the cache, sectors of x from the L1, the L2 and memory, entries, slots and rows walked, and the longest chain of
// dependent loads. What a term counts follows from the matrix and the format's plan, see formats/model.hpp; what it
// costs is fitted on the calibration samples, in Python. What remains is taken from the samples most like the matrix.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/mutex.hpp"
#include "formats/model.hpp"
#include "matrix/matrix.hpp"

namespace spmvgpu::roofline {

// Where a matrix lies among others, for finding those most like it: distances of 1 are near.
using Point = std::array<double, 8>;
Point point_of(const Features& features);

// A format with options that make a kernel of its own of it, and the cost of its terms.
struct Variant {
    std::string format;
    Options options;
    double norm = 1;                // the p of the p-norm that joins the terms
    Terms costs{};                  // microseconds per unit
    std::vector<double> residuals;  // logarithm of measured over what the terms say, by sample; NaN where unknown

    double time_us(const Terms& terms) const;
};

// How much each sample says of a matrix at a point, and the factor by which those like it take longer than their terms
// say, which is drawn towards 1 where there are few.
std::vector<double> weights_at(const Point& point, const std::vector<Point>& places);
double correction(const std::vector<double>& weights, const std::vector<double>& residuals);

// The variants of a device for values of one type.
class Model {
public:
    Model(const Machine& machine, int item_bytes, std::vector<Variant> variants, std::vector<Point> places);
    virtual ~Model() = default;

    const Machine& machine() const { return machine_; }
    int item_bytes() const { return item_bytes_; }
    const std::vector<Variant>& variants() const { return variants_; }
    const std::vector<Point>& places() const { return places_; }

    // What the terms of a product of a variant cost at least; for a format that is chosen only if asked for, 0.
    virtual double least_time_us(const Subject& subject, const Variant& variant, Device device) const = 0;

private:
    Machine machine_;
    int item_bytes_;
    std::vector<Variant> variants_;
    std::vector<Point> places_;
};

template <class T>
class ModelOf : public Model {
public:
    ModelOf(const Machine& machine, std::vector<Variant> variants, std::vector<Point> places)
        : Model(machine, sizeof(T), std::move(variants), std::move(places)) {}
    double least_time_us(const Subject& subject, const Variant& variant, Device device) const override;

private:
    // What a format stores per entry of a symmetric band of dense blocks, which all formats store with hardly any
    // padding; nothing if it does not hold it.
    Amount of_band(const std::string& format, index_t block, const Target& target) const;

    mutable Mutex mutex_;
    mutable std::map<std::tuple<std::string, index_t, int>, Amount> bands_;
};

// A matrix before the model of a device with so many processors.
class Case {
public:
    Case(std::shared_ptr<const Model> model, const Features& features, int processors);

    // Microseconds of a product of a variant, by its place among the model's, as planned.
    double time_us(std::size_t variant, const MatrixPlan& plan) const;

    // And what it takes at least, if the matrix suits it as well as its features allow: it says of many formats that
    // they need not be planned, which takes passes over the matrix.
    double least_time_us(std::size_t variant, Device device) const;

private:
    std::shared_ptr<const Model> model_;
    Subject subject_;
    std::vector<double> corrections_;
};

}  // namespace spmvgpu::roofline
