// templates/ptx/griddepcontrol.cuh on the CPU, where one grid runs after the other.
#pragma once
namespace ptx {
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}
}  // namespace ptx
