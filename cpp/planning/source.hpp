// Sources: canonical matrices in CSR of which formats are planned, ranked and built where the matrix lies.
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

// What took the time while a matrix was ranked, as Python's steps are named: "features", "plan", "order".
struct Step {
    std::string name, format;
    double seconds;
};
using Steps = std::vector<Step>;

// Calls something, and adds how long it took.
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

// A source of any value type.
class AnySource {
public:
    virtual ~AnySource() = default;

    virtual Device device() const = 0;
    virtual AnyCsr any() const = 0;

    // What the performance model knows of the matrix; found when it is first asked for.
    const Features& features();

    // What a format would do with the matrix. Plans for the source's own device are kept for build().
    virtual std::shared_ptr<const MatrixPlan> plan(const std::string& format, const Options& options,
                                                   const Target& target) = 0;

    // Of a matrix in host memory.
    virtual RowSample row_sample() const = 0;

protected:
    // Nothing where nobody asked for them yet.
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

    // The matrix in a format on a device: that of the source, or a GPU for which it lies in host memory. A plan for
    // just this device serves once; plans take memory of the device until then, or until it is needed. Where a GPU has
    // no room for what the matrix is made of, the host makes it, as it does with Builders::kOfHost.
    std::shared_ptr<Matrix<T>> build(const std::string& format, const Options& options, Device device,
                                     Builders builders = Builders::kOfDevice);

    // An order of rows and columns by clusters, and the matrix in it, if format "auto" is to store the matrix so: its
    // products load entries of x that no row nearby needs, it is a mesh, the budget lasts for finding the order, and
    // products save more than it takes to permute x and y.
    std::optional<typename CsrSource<T>::Reordered> nearer_order(const Budget& budget, Steps& steps);

private:
    using Key = std::tuple<std::string, Options, int>;

    // With the features that are known.
    std::shared_ptr<const MatrixPlan> made_plan(const std::string& format, const Options& options, Target target);

    Mutex mutex_;
    std::map<Key, std::shared_ptr<const MatrixPlan>> plans_;
};

}  // namespace spmvgpu
