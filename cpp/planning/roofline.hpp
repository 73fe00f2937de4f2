// The library's own model: a product takes as long as what it moves and waits for takes.
//
// What a term counts follows from the matrix and the format's plan; what it costs on one device is the format's own,
// see formats/model.hpp. Another device is described by a dozen rates, and where a format was timed on it, by the
// factor by which its products take longer than that says.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "core/mutex.hpp"
#include "formats/model.hpp"
#include "matrix/matrix.hpp"

namespace spmvgpu::roofline {

// What is known of a format's times on a device.
struct Measured {
    double scale = 1;             // products take as many times as long as the rates say
    std::optional<double> error;  // mean relative error of predictions; none if it is unknown
};

// A device, for values of one type.
class Model {
public:
    Model(const Machine& machine, int item_bytes, std::map<std::string, Measured> formats)
        : machine_(machine), item_bytes_(item_bytes), formats_(std::move(formats)) {}
    virtual ~Model() = default;

    const Machine& machine() const { return machine_; }
    int item_bytes() const { return item_bytes_; }
    // Whether a format was ever timed, on this device or on those that the costs of formats are of.
    bool is_known(const std::string& format) const { return formats_.contains(format) || has_costs(format); }
    Measured of(const std::string& format) const {
        const auto found = formats_.find(format);
        return found == formats_.end() ? Measured{} : found->second;
    }

    // What a product of a format costs at least; of one that is chosen only if asked for, 0.
    virtual double least_time_us(const Subject& subject, const std::string& format, Device device) const = 0;

private:
    virtual bool has_costs(const std::string& format) const = 0;

    Machine machine_;
    int item_bytes_;
    std::map<std::string, Measured> formats_;
};

template <class T>
class ModelOf : public Model {
public:
    ModelOf(const Machine& machine, std::map<std::string, Measured> formats)
        : Model(machine, sizeof(T), std::move(formats)) {}
    double least_time_us(const Subject& subject, const std::string& format, Device device) const override;

private:
    bool has_costs(const std::string& format) const override;

    // What a format stores per entry of a symmetric band of dense blocks, which all formats store with hardly any
    // padding; nothing if it does not hold it.
    Amount of_band(const std::string& format, index_t block, const Target& target) const;

    mutable Mutex mutex_;
    mutable std::map<std::tuple<std::string, index_t, int>, Amount> bands_;
};

// A matrix before the model of a device with so many processors.
class Case {
public:
    Case(std::shared_ptr<const Model> model, const Features& features, int processors)
        : model_(std::move(model)), subject_{features, model_->item_bytes(), model_->machine()} {
        subject_.machine.processors = processors;
    }

    // Microseconds of a product as planned, or with other options that change nothing that is stored.
    double time_us(const std::string& format, const MatrixPlan& plan, const Options& changed = {}) const {
        return plan.time_us(subject_, plan, changed) * model_->of(format).scale;
    }

    // And what it takes at least, if the matrix suits it as well as its features allow: it says of many formats that
    // they need not be planned, which takes passes over the matrix.
    double least_time_us(const std::string& format, Device device) const {
        return model_->least_time_us(subject_, format, device) * model_->of(format).scale;
    }

private:
    std::shared_ptr<const Model> model_;
    Subject subject_;
};

}  // namespace spmvgpu::roofline
