#pragma once

#include "core/types.hpp"
#include "gpu/cuda/check.hpp"

namespace spmvgpu::gpu {

// Queued work uses memory that is about to be reused.
class WaitForStream {
public:
    explicit WaitForStream(Stream stream) : stream_(stream) {}
    ~WaitForStream() { cudaStreamSynchronize(native(stream_)); }
    WaitForStream(const WaitForStream&) = delete;
    WaitForStream& operator=(const WaitForStream&) = delete;

private:
    Stream stream_;
};

}  // namespace spmvgpu::gpu
