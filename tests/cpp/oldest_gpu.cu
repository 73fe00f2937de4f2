// What kernels are written in, for the oldest GPUs that are supported: it has to compile.
#include "gpu/cuda/warp_lanes.cuh"

namespace {

using namespace spmvgpu;

[[maybe_unused]] __global__ void use_lanes(index_t n, index_t* numbers, std::uint64_t* sums) {
    const gpu::WarpLanes lanes;
    const auto number = [=](index_t i) { return numbers[i]; };
    const index_t best[] = {lanes.least(number), lanes.largest(number), lanes.least_of(n, number, n),
                            lanes.largest_of(n, number, -1), lanes.of(3, number)};
    const Word odd = lanes.those([=](int lane) { return numbers[lane] % 2 != 0; });
    lanes.once([&] { *sums = lanes.sum(odd); });
    lanes.share(n, [=](index_t i) { numbers[i] = best[i % 5]; });
}

}  // namespace
