// Atomics (one thread runs at a time, so they are plain) and loads and stores with cache hints.
#pragma once
namespace emulator {

template <class T, class... Allowed>
using OneOf = std::enable_if_t<(std::is_same_v<T, Allowed> || ...)>;
template <class T>
using SameAs = std::common_type_t<T>;  // the second operand converts to the first one's type
template <class T, class Allowed = void>
using Integer = OneOf<T, int, unsigned, long, unsigned long, long long, unsigned long long>;

template <class T>
T exchange_memory(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace emulator

template <class T, class = emulator::OneOf<T, int, unsigned, unsigned long, unsigned long long, float, double>>
T atomicAdd(T* address, emulator::SameAs<T> value) { return emulator::exchange_memory(address, T(*address + value)); }
template <class T, class = emulator::OneOf<T, int, unsigned>>
T atomicSub(T* address, emulator::SameAs<T> value) { return emulator::exchange_memory(address, T(*address - value)); }
template <class T, class = emulator::Integer<T>>
T atomicMax(T* address, emulator::SameAs<T> value) {
  return emulator::exchange_memory(address, *address < value ? value : *address);
}
template <class T, class = emulator::Integer<T>>
T atomicMin(T* address, emulator::SameAs<T> value) {
  return emulator::exchange_memory(address, value < *address ? value : *address);
}
template <class T, class = emulator::Integer<T>>
T atomicAnd(T* address, emulator::SameAs<T> value) { return emulator::exchange_memory(address, T(*address & value)); }
template <class T, class = emulator::Integer<T>>
T atomicOr(T* address, emulator::SameAs<T> value) { return emulator::exchange_memory(address, T(*address | value)); }
template <class T, class = emulator::OneOf<T, int, unsigned, unsigned long, unsigned long long, float>>
T atomicExch(T* address, emulator::SameAs<T> value) { return emulator::exchange_memory(address, value); }
template <class T, class = emulator::OneOf<T, int, unsigned, unsigned long, unsigned long long>>
T atomicCAS(T* address, emulator::SameAs<T> expected, emulator::SameAs<T> value) {
  return emulator::exchange_memory(address, *address == expected ? value : *address);
}

template <class T> T __ldg(const T* address) { return *address; }
template <class T> T __ldca(const T* address) { return *address; }
template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }
template <class T> void __stcg(T* address, emulator::SameAs<T> value) { *address = value; }
template <class T> void __stcs(T* address, emulator::SameAs<T> value) { *address = value; }
template <class T> void __stwb(T* address, emulator::SameAs<T> value) { *address = value; }
template <class T> void __stwt(T* address, emulator::SameAs<T> value) { *address = value; }
