// Sources: canonical matrices in CSR from which formats are planned, ranked and built on the device of the matrix.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "core/mutex.hpp"
#include "matrix/csr_source.hpp"
#include "matrix/matrix.hpp"
#include "planning/choose.hpp"
#include "planning/features.hpp"
#include "planning/row_sample.hpp"

namespace spmvgpu {

// A step of a ranking and its time, named as in Python: "features", "plan", "order".
struct PlanningStep {
    std::string name, format;
    double seconds;
};
using Steps = std::vector<PlanningStep>;

// Calls a function, and adds its time.
template <class Call>
decltype(auto) timed(Steps& steps, const char* name, const std::string& format, Call&& call) {
    struct Timer {
        Steps& steps;
        const char* name;
        const std::string& format;
        std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

        ~Timer() {
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            steps.push_back({name, format, took.count()});
        }
    } timer{steps, name, format};
    return call();
}

class AnySource {
public:
    virtual ~AnySource() = default;

    virtual Device device() const = 0;
    virtual AnyCsr any() const = 0;

    // Features for the performance model, computed by the first call.
    const Features& features();

    // The plan of a format for the matrix. Plans for the source's own device are kept for build().
    virtual std::shared_ptr<const MatrixPlan> plan(const std::string& format, const Options& options,
                                                   const Target& target) = 0;

    // The matrix is in host memory.
    virtual RowSample row_sample() const = 0;

protected:
    // Null before the first call of features().
    const Features* known_features();

private:
    Mutex features_mutex_;
    std::optional<Features> features_;
};

template <class T>
class PlannedSource : public AnySource, public CsrSource<T> {
public:
    using CsrSource<T>::CsrSource;

    Device device() const override { return CsrSource<T>::device(); }
    AnyCsr any() const override { return any_csr(this->csr()); }
    std::shared_ptr<const MatrixPlan> plan(const std::string& format, const Options& options,
                                           const Target& target) override;
    RowSample row_sample() const override { return sample_rows(this->csr()); }

    // The matrix in a format on a device: the device of the source, or a GPU for a matrix in host memory. A plan for
    // just this device is used once; plans take memory of the device until then, or until it is needed. If a GPU has no
    // room for the build, the host does it, as with Builders::kOfHost.
    std::shared_ptr<Matrix<T>> build(const std::string& format, const Options& options, Device device,
                                     Builders builders = Builders::kOfDevice);

    // An order of rows and columns by clusters, and the matrix in it, if format "auto" is to store the matrix so: its
    // products load entries of x that no row nearby needs, it is a mesh, the budget suffices for finding the order, and
    // products save more than the permutation of x and y takes.
    std::optional<typename CsrSource<T>::Reordered> nearer_order(const Budget& budget, Steps& steps);

private:
    using Key = std::tuple<std::string, Options, int>;

    // Uses the features that are known.
    std::shared_ptr<const MatrixPlan> made_plan(const std::string& format, const Options& options, Target target);

    Mutex mutex_;
    std::map<Key, std::shared_ptr<const MatrixPlan>> plans_;
};

}  // namespace spmvgpu
