#version 450
// As it was written before SPIR-V 1.3: storage buffers are uniforms with a decoration.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Source { float v[]; } source;
layout(set = 0, binding = 1) buffer Target { float v[]; } target;
layout(push_constant) uniform Push { uint count; float factor; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= push.count) return;
    float sum = 0.0;
    for (int tap = -2; tap <= 2; tap++) sum += source.v[clamp(int(i) + tap, 0, int(push.count) - 1)];
    target.v[i] = sum * push.factor;
}
