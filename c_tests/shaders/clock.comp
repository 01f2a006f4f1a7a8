#version 450
#extension GL_EXT_shader_realtime_clock : require
// Needs a capability that the library never turns on.
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) writeonly buffer To { uvec2 to[]; };
void main() { to[0] = clockRealtime2x32EXT(); }
