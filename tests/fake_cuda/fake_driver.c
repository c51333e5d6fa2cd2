// libcuda.so.1 for tests: device memory is host memory, streams run at once, a launch calls `fake_on_launch` back.
// Captured launches are kept and called at each replay. `fake_set_fault` makes calls fail as after a kernel's fault.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BLOCKS 4096
#define MAX_ARGUMENTS 8
#define MAX_LAUNCHES 20000

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500 };
static char stream_of_all, context_of_all, module_of_all;

typedef struct {
  char name[32];
  unsigned grid[3], block, smem_bytes;
  uint64_t arguments[MAX_ARGUMENTS];
  int count;
} Launch;
typedef struct {
  int count;
  Launch launches[];
} Graph;
typedef void (*Callback)(const char*, unsigned, unsigned, unsigned, unsigned, unsigned, const uint64_t*, int);
typedef int (*Arity)(const char*);

static Callback on_launch;
static Arity arity;
static int fault, capturing, captured_count, live_blocks;
static Launch captured[MAX_LAUNCHES];
static struct { uint64_t base, size; } blocks[MAX_BLOCKS];

void fake_on_launch(Callback callback, Arity count_arguments) { on_launch = callback, arity = count_arguments; }
void fake_set_fault(int code) { fault = code; }
int fake_live_blocks(void) { return live_blocks; }
uint64_t fake_bytes_from(uint64_t address) {  // to the end of the block that holds the address; 0 if none does
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (address >= blocks[i].base && address < blocks[i].base + blocks[i].size)
      return blocks[i].base + blocks[i].size - address;
  return 0;
}

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuGetErrorString(int code, const char** text) { return *text = "words of the driver", 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int device) { return snprintf(name, size, "Fake GPU"), 0; }
int cuDeviceGetUuid_v2(char* uuid, int device) { return memset(uuid, 0xAB, 16), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 13: return *value = 1980000, 0;   // clock
    case 16: return *value = 132, 0;       // multiprocessors
    case 36: return *value = 3201000, 0;   // memory clock
    case 37: return *value = 6144, 0;      // memory bus width
    case 38: return *value = 2000, 0;      // L2 cache: small, so that few sets exceed it
    case 39: return *value = 2048, 0;      // threads of a multiprocessor
    case 75: return *value = 9, 0;         // compute capability
    case 76: return *value = 0, 0;
    case 81: return *value = 233472, 0;    // shared memory of a multiprocessor
    case 82: return *value = 65536, 0;     // registers of a multiprocessor
    case 97: return *value = 232448, 0;    // shared memory of a CTA
    case 106: return *value = 32, 0;       // CTAs of a multiprocessor
  }
  return INVALID_VALUE;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &context_of_all, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void* context) { return context == &context_of_all ? 0 : INVALID_HANDLE; }

int cuStreamCreate(void** stream, unsigned flags) { return *stream = &stream_of_all, 0; }
int cuStreamDestroy_v2(void* stream) { return 0; }
static int in_stream(void* stream) { return stream == &stream_of_all ? fault : INVALID_HANDLE; }
int cuStreamSynchronize(void* stream) { return in_stream(stream); }

int cuEventCreate(struct timespec** event, unsigned flags) { return *event = malloc(sizeof **event), 0; }
int cuEventDestroy_v2(struct timespec* event) { return free(event), 0; }
int cuEventRecord(struct timespec* event, void* stream) {
  return clock_gettime(CLOCK_MONOTONIC, event), in_stream(stream);
}
int cuEventSynchronize(struct timespec* event) { return fault; }
int cuEventElapsedTime_v2(float* ms, struct timespec* start, struct timespec* stop) {
  return *ms = (stop->tv_sec - start->tv_sec) * 1e3f + (stop->tv_nsec - start->tv_nsec) * 1e-6f, fault;
}
int cuEventElapsedTime(float* ms, struct timespec* start, struct timespec* stop) {
  return cuEventElapsedTime_v2(ms, start, stop);
}

int cuMemAlloc_v2(uint64_t* pointer, size_t size) {
  if (fault) return fault;
  void* memory;
  int i = 0;
  while (i < MAX_BLOCKS && blocks[i].size) ++i;
  if (i == MAX_BLOCKS || size > (1ull << 40) || posix_memalign(&memory, 256, size)) return OUT_OF_MEMORY;
  blocks[i].base = *pointer = (uint64_t)memory, blocks[i].size = size, ++live_blocks;
  return 0;
}
int cuMemFree_v2(uint64_t pointer) {
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].size && blocks[i].base == pointer) {
      free((void*)pointer), blocks[i].size = 0, --live_blocks;
      return fault;
    }
  return INVALID_VALUE;
}
int cuMemGetInfo_v2(size_t* available, size_t* total) { return *available = 1 << 30, *total = 1 << 30, 0; }
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t size, void* stream) {
  return memset((void*)to, byte, size), in_stream(stream);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, void* stream) {
  return memcpy((void*)to, from, size), in_stream(stream);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream) {
  return memcpy(to, (void*)from, size), in_stream(stream);
}

int cuModuleLoadData(void** module, const char* image) {
  return *module = &module_of_all, memcmp(image, "\177ELF", 4) ? INVALID_IMAGE : fault;
}
int cuModuleUnload(void* module) { return 0; }
int cuModuleGetFunction(const char** function, void* module, const char* name) {
  return *function = strdup(name), 0;  // a function is its name
}
int cuFuncGetAttribute(int* value, int attribute, void* function) { return *value = 48 * 1024, 0; }
int cuFuncSetAttribute(void* function, int attribute, int value) { return value > 232448 ? INVALID_VALUE : 0; }
// A map is its tensor's address, then what else the caller said; the checks are the driver's.
int cuTensorMapEncodeTiled(uint64_t* map, int type, uint32_t rank, uint64_t address, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                           int swizzle, int l2_promotion, int fill) {
  if (fault) return fault;
  if ((uintptr_t)map % 64 || address % 16 || rank < 3 || rank > 5 || interleave || fill) return INVALID_VALUE;
  for (unsigned i = 0; i < rank; ++i)
    if (!dims[i] || !box[i] || box[i] > 256 || steps[i] != 1 || (i + 1 < rank && strides[i] % 16)) return INVALID_VALUE;
  memset(map, 0, 128);
  map[0] = address, map[1] = type, map[2] = rank, map[3] = swizzle, map[4] = l2_promotion;
  return 0;
}
static void run(const Launch* l) {
  on_launch(l->name, l->grid[0], l->grid[1], l->grid[2], l->block, l->smem_bytes, l->arguments, l->count);
}
int cuLaunchKernel(const char* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned smem_bytes, void* stream, uint64_t** parameters,
                   void** extra) {
  if (extra || block_x > 1024 || block_y != 1 || block_z != 1) return INVALID_VALUE;
  Launch launch = {.grid = {grid_x, grid_y, grid_z}, .block = block_x, .smem_bytes = smem_bytes};
  snprintf(launch.name, sizeof launch.name, "%s", function);
  launch.count = arity(function);
  for (int i = 0; i < launch.count; ++i) launch.arguments[i] = *parameters[i];
  if (!capturing) run(&launch);
  else if (captured_count < MAX_LAUNCHES) captured[captured_count++] = launch;
  return in_stream(stream) == INVALID_HANDLE ? INVALID_HANDLE : 0;  // a fault surfaces at the next wait
}

typedef struct {
  int id;
  char pad[4];
  uint64_t value[8];
} Attribute;
typedef struct {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, smem_bytes;
  void* stream;
  Attribute* attributes;
  unsigned count;
} Config;
enum { CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
int cuLaunchKernelEx(const Config* c, const char* function, uint64_t** parameters, void** extra) {
  if (c->count == 0) return INVALID_VALUE;  // a plain launch would do
  for (unsigned i = 0; i < c->count; ++i) {
    const Attribute* a = c->attributes + i;
    const unsigned *value = (const unsigned*)a->value, x = value[0];
    const int early = a->id == PROGRAMMATIC_STREAM_SERIALIZATION && x == 1;
    const int cluster = a->id == CLUSTER_DIMENSION && x > 1 && x <= 8 && c->grid_x % x == 0 && value[1] == 1 && value[2] == 1;
    if (!early && !cluster) return INVALID_VALUE;
  }
  return cuLaunchKernel(function, c->grid_x, c->grid_y, c->grid_z, c->block_x, c->block_y, c->block_z, c->smem_bytes,
                        c->stream, parameters, extra);
}

int cuStreamBeginCapture_v2(void* stream, int mode) { return capturing = 1, captured_count = 0, in_stream(stream); }
int cuStreamEndCapture(void* stream, Graph** graph) {
  capturing = 0;
  *graph = malloc(sizeof **graph + captured_count * sizeof(Launch));
  (*graph)->count = captured_count;
  memcpy((*graph)->launches, captured, captured_count * sizeof(Launch));
  return in_stream(stream);
}
int cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long flags) {
  return *executable = graph, 0;
}
int cuGraphDestroy(Graph* graph) { return 0; }
int cuGraphExecDestroy(Graph* executable) { return free(executable), 0; }
int cuGraphLaunch(Graph* executable, void* stream) {
  for (int i = 0; i < executable->count; ++i) run(&executable->launches[i]);
  return in_stream(stream) == INVALID_HANDLE ? INVALID_HANDLE : 0;
}

// How cuda.bindings finds everything else: the newest version of a symbol.
int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* status) {
  void* here = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  static const char* const suffixes[] = {"_v2", "WithFlags", ""};
  *function = NULL;
  for (int i = 0; i < 3 && !*function; ++i) {
    char name[128];
    snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
    *function = dlsym(here, name);
  }
  if (status) *status = *function ? 0 : 1;
  return *function ? 0 : NOT_FOUND;
}
