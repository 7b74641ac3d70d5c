// Decodes and encodes each line of its input.
#include <iostream>
#include "vehicled_client.hpp"
int main() {
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::cout << vehicled::Json::parse(line).dump() << std::endl;
        } catch (const vehicled::Error&) {
            std::cout << "refused" << std::endl;
        }
    }
}
