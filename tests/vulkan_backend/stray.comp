#version 450
// Writes one word wherever it is told, inside its slice or not.

layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint values[]; } target;
layout(push_constant) uniform Push { uint at; } push;

void main() {
    target.values[push.at] = 0xdeadbeefu;
}
