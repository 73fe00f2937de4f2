// The C structs of the DLPack exchange format, version 0.x, as its specification lays them out
// (https://dmlc.github.io/dlpack/latest/c_api.html): the layout is the protocol, so it is written down here.
#pragma once

#include <cstdint>

namespace spmvgpu::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kFloat = 2, kComplex = 5 };

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null for C order
    std::uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};

// A capsule is renamed once its tensor has been taken over, so that no second consumer takes it.
inline constexpr char kName[] = "dltensor";
inline constexpr char kUsedName[] = "used_dltensor";

}  // namespace spmvgpu::dlpack
