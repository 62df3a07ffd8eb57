/* What torchvision's wheel wants of the GPU build of torch: names alone, so that it can be loaded into the CPU build.
   No function is ever called. */
#define NONE(name) void name(void) { __builtin_trap(); }
void *_ZN3c104cuda20CUDACachingAllocator9allocatorE;
NONE(_ZN2at4cuda26getCurrentDevicePropertiesEv)
NONE(_ZN3c104cuda12device_countEv)
NONE(_ZN3c104cuda14ExchangeDeviceEa)
NONE(_ZN3c104cuda14MaybeSetDeviceEa)
NONE(_ZN3c104cuda14current_deviceEv)
NONE(_ZN3c104cuda17getStreamFromPoolEba)
NONE(_ZN3c104cuda17getStreamFromPoolEia)
NONE(_ZN3c104cuda20getCurrentCUDAStreamEa)
NONE(_ZN3c104cuda20getDefaultCUDAStreamEa)
NONE(_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE)
NONE(_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb)
NONE(_ZN3c104cuda9GetDeviceEPa)
NONE(_ZN3c104cuda9SetDeviceEab)
NONE(_ZNK3c104cuda10CUDAStream11synchronizeEv)
NONE(_ZNK3c104cuda10CUDAStream5queryEv)
NONE(_ZNK3c104cuda10CUDAStream6streamEv)
