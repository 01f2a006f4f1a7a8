#version 450
#extension GL_EXT_nonuniform_qualifier : require
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint count = 3;
layout(set = 0, binding = 0) readonly buffer Source { uint v[]; } sources[2];
layout(set = 0, binding = 1) buffer Target { uint v[]; } targets[count];
layout(set = 0, binding = 4) buffer Alone { uint v[]; } alone;
layout(set = 1, binding = 0) buffer Both { uint v[]; } both[1];
void main() {
    alone.v[0] = sources[1].v[0];
    targets[nonuniformEXT(gl_GlobalInvocationID.x)].v[0] = 1;
    both[0].v[0]++;
}
