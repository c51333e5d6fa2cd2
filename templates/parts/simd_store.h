template <class B>
IM2WINGEN_INLINE B load_bias(const Output* from) {
  if constexpr (std::is_same_v<B, Output>)
    return *from;
  else
    return *reinterpret_cast<const LooseOutputs*>(from);
}
// The accumulators of a tile after the last chunk: bias, ReLU (which hands NaN on), and to y.
template <class T>
IM2WINGEN_INLINE void finish(Acc<T>& acc, const Output* bias, int lanes_of_last) {
  if constexpr (kHasBias) {
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) {
      std::conditional_t<kChannelsInLanes, Outputs, Output> b{};
      if (v < T::vectors - 1 || lanes_of_last == FILTER_LANES)
        b = load_bias<decltype(b)>(bias + v * FILTER_LANES);
      else
        std::memcpy(&b, bias + v * FILTER_LANES, lanes_of_last * sizeof(Output));
      const auto addend = sums_of(b);
      IM2WINGEN_UNROLL
      for (int i = 0; i < T::pixels; ++i) {
        acc[i][v] = acc[i][v] + addend;
        if constexpr (kHasRelu) acc[i][v] = acc[i][v] < Sum(0) ? Vector{} : acc[i][v];
      }
    }
  }
}

static_assert(!kStorePastCaches || kStaged || (kOutputChannelsLast && K % LANES == 0 && GROUP_K % LANES == 0) ||
                  (kImagesInLanes && IMAGES % LANES == 0),
              "outputs past the caches must be whole vectors, aligned ones, or staged");
static_assert(!kStaged || (!kOutputChannelsLast && !kImagesInLanes && kPixelsInner),
              "rows of an NCHW y alone are staged, pixels innermost");
// Lanes [first, end), which the compiler knows.
IM2WINGEN_INLINE void store_some(Output* to, Outputs v, int first, int end) {
  std::memcpy(to + first, reinterpret_cast<const Output*>(&v) + first, (end - first) * sizeof(Output));
}
template <class T>
IM2WINGEN_INLINE void store_channels_last(const Acc<T>& acc, Output* y, int lanes_of_last, bool past_caches) {
  IM2WINGEN_UNROLL
  for (int i = 0; i < T::pixels; ++i) {
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) {
      Output* const to = y + T::output(i) + v * LANES;
      if (LAST_LANES > 0 && v == T::vectors - 1 && lanes_of_last < LANES)
        store_some(to, outputs_of(acc[i][v]), 0, LAST_LANES);
      else if (kStorePastCaches && past_caches)
        store_past_caches(to, outputs_of(acc[i][v]));
      else
        store(to, outputs_of(acc[i][v]));
    }
  }
}

// Vectors of images or pixels; `shared`: the first images belong to the tile before this one.
template <class T>
IM2WINGEN_INLINE void store_vectors(const Acc<T>& acc, Output* y, bool shared, bool past_caches) {
  IM2WINGEN_UNROLL
  for (int i = 0; i < T::pixels; ++i) {
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) {
      Output* const to = y + T::output(i) + v * OUTPUT_CHANNEL;
      if (OVERLAP > 0 && i < T::p * T::q && shared)
        store_some(to, outputs_of(acc[i][v]), OVERLAP, LANES);
      else if (kStorePastCaches && !kStaged && past_caches)
        store_past_caches(to, outputs_of(acc[i][v]));
      else
        store(to, outputs_of(acc[i][v]));
    }
  }
}

// Pixels that lie side by side in a plane of y; four of them at a time, the last four of a run overlap others.
template <class T>
constexpr int kRun = T::q < Q ? T::q : T::p * T::q;
template <class T>
IM2WINGEN_INLINE void store_planes(const Acc<T>& acc, Output* y, int lanes_of_last) {
  IM2WINGEN_UNROLL
  for (int v = 0; v < T::vectors; ++v) {
    const int lanes = LAST_LANES > 0 && v == T::vectors - 1 ? lanes_of_last : LANES;
    IM2WINGEN_UNROLL
    for (int run = 0; run < T::pixels; run += kRun<T>) {
      if constexpr (kRun<T> < 4 || LANES < 4) {
        for (int i = run; i < run + kRun<T>; ++i) {
          const Outputs outputs = outputs_of(acc[i][v]);
          for (int k = 0; k < lanes; ++k) y[(v * LANES + k) * OUTPUT_CHANNEL + T::output(i)] = outputs[k];
        }
      } else {
        IM2WINGEN_UNROLL
        for (int four = 0; four < kRun<T>; four += 4) {
          const int i = run + (four + 4 <= kRun<T> ? four : kRun<T> - 4);
          Vector columns[4];
          transpose_fours(acc[i][v], acc[i + 1][v], acc[i + 2][v], acc[i + 3][v], columns);
          for_each_of(std::make_integer_sequence<int, LANES / 4>{}, [&](auto j) {
            IM2WINGEN_UNROLL
            for (int t = 0; t < 4; ++t)
              if (4 * j + t < lanes)
                store_four<j>(y + (v * LANES + 4 * j + t) * OUTPUT_CHANNEL + T::output(i), outputs_of(columns[t]));
          });
        }
      }
    }
  }
}

// A staged run of one plane: whole vectors past the caches, or all of it through them.
IM2WINGEN_INLINE void store_run(Output* to, const Output* from, int count) {
  if constexpr (kStorePastCaches) {
    while (count > 0 && reinterpret_cast<uintptr_t>(to) % sizeof(Outputs) != 0) *to++ = *from++, --count;
    for (; count >= LANES; count -= LANES, to += LANES, from += LANES)
      store_past_caches(to, *reinterpret_cast<const LooseOutputs*>(from));
  }
  std::memcpy(to, from, count * sizeof(Output));
}
