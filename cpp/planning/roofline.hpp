// The library's own model: the time of a product is the time of its traffic and its waits.
//
// The counts of terms follow from the matrix and the format's plan; the format has their costs on one device, see
// formats/model.hpp. Another device is described by a dozen rates and, for each format that was timed on it, by the
// ratio of measured to predicted times.
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

struct Measured {
    double scale = 1;             // ratio of measured times to the rates' prediction
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
    // True if a format was ever timed, on this device or on the reference devices of the costs.
    bool is_known(const std::string& format) const { return formats_.contains(format) || has_costs(format); }
    Measured of(const std::string& format) const {
        const auto found = formats_.find(format);
        return found == formats_.end() ? Measured{} : found->second;
    }

    // A lower bound of the time of a product in a format; 0 for one that is chosen only if asked for.
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

    // The amount that a format stores per entry of a symmetric band of dense blocks, which all formats store with
    // hardly any padding; zero if it cannot hold the band.
    Amount of_band(const std::string& format, index_t block, const Target& target) const;

    mutable Mutex mutex_;
    mutable std::map<std::tuple<std::string, index_t, int>, Amount> bands_;
};

// A matrix and the model of a device with this many processors.
class Case {
public:
    Case(std::shared_ptr<const Model> model, const Features& features, int processors)
        : model_(std::move(model)), subject_{features, model_->item_bytes(), model_->machine()} {
        subject_.machine.processors = processors;
    }

    // Microseconds of a product as planned, or with other options that do not change the stored arrays.
    double time_us(const std::string& format, const MatrixPlan& plan, const Options& changed = {}) const {
        return plan.time_of(subject_, plan, changed).us * model_->of(format).scale;
    }
    std::map<std::string, double> parts_us(const std::string& format, const MatrixPlan& plan) const {
        const times::Time time = plan.time_of(subject_, plan, {});
        std::map<std::string, double> parts{{"start", time.start},
                                            {"bytes", time.bytes},
                                            {"gathers", time.gathers},
                                            {"work", time.work},
                                            {"waits", time.waits}};
        for (auto& [name, us] : parts) us *= model_->of(format).scale;
        return parts;
    }

    // A lower bound for a matrix that suits the format as well as its features allow. It spares many formats a plan,
    // which takes passes over the matrix.
    double least_time_us(const std::string& format, Device device) const {
        return model_->least_time_us(subject_, format, device) * model_->of(format).scale;
    }

private:
    std::shared_ptr<const Model> model_;
    Subject subject_;
};

}  // namespace spmvgpu::roofline
