# The imported target `diloco_libtorch`: headers, quietened, and libraries of the LibTorch that DILOCO_LIBTORCH names.
#
# Made by hand, because LibTorch's own package file cannot be used for all: that of a wheel asks for the CUDA toolkit it was
# built with, even for the CPU alone, defines Protobuf's targets anew and takes a LibTorch under /usr/lib before its own.
option(DILOCO_CUDA "Link the GPU half of LibTorch where it has one" ON)

if(DILOCO_LIBTORCH STREQUAL "system")
  set(torch_hints)
  find_path(DILOCO_LIBTORCH_HEADERS torch/script.h)
else()
  get_filename_component(torch_root "${DILOCO_LIBTORCH}" ABSOLUTE)
  set(torch_hints PATHS ${torch_root}/lib NO_DEFAULT_PATH)
  find_path(DILOCO_LIBTORCH_HEADERS torch/script.h PATHS ${torch_root}/include NO_DEFAULT_PATH)
endif()
find_library(DILOCO_LIBTORCH_CPU torch_cpu ${torch_hints})
find_library(DILOCO_LIBTORCH_C10 c10 ${torch_hints})
find_library(DILOCO_LIBTORCH_CUDA torch_cuda ${torch_hints})
find_library(DILOCO_LIBTORCH_C10_CUDA c10_cuda ${torch_hints})
if(NOT DILOCO_LIBTORCH_HEADERS OR NOT DILOCO_LIBTORCH_CPU OR NOT DILOCO_LIBTORCH_C10)
  message(FATAL_ERROR "No LibTorch at `${DILOCO_LIBTORCH}`: install libtorch-dev, or set DILOCO_LIBTORCH to the folder that "
                      "holds its include/ and lib/ (in a wheel: site-packages/torch), or to `none`")
endif()

add_library(diloco_libtorch INTERFACE IMPORTED GLOBAL)
target_include_directories(diloco_libtorch SYSTEM INTERFACE
  ${DILOCO_LIBTORCH_HEADERS} ${DILOCO_LIBTORCH_HEADERS}/torch/csrc/api/include)
target_link_libraries(diloco_libtorch INTERFACE ${DILOCO_LIBTORCH_CPU} ${DILOCO_LIBTORCH_C10})
# A wheel keeps NVIDIA's libraries in folders beside its own; even its CPU half loads a few of them.
file(GLOB torch_nvidia_folders ${DILOCO_LIBTORCH_HEADERS}/../../nvidia/*/lib)
foreach(folder IN LISTS torch_nvidia_folders)
  target_link_options(diloco_libtorch INTERFACE -Wl,-rpath-link,${folder} -Wl,-rpath,${folder})
endforeach()
if(DILOCO_CUDA AND DILOCO_LIBTORCH_CUDA)
  # Nothing refers to this library, it registers itself; so the linker must be told to keep it.
  target_link_options(diloco_libtorch INTERFACE
    -Wl,--no-as-needed ${DILOCO_LIBTORCH_CUDA} ${DILOCO_LIBTORCH_C10_CUDA} -Wl,--as-needed)
endif()
message(STATUS "LibTorch: ${DILOCO_LIBTORCH_CPU}")
