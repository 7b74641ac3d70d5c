// Client of vehicled in C++17, in one header and without a library: requests to a running daemon, its topics, setpoints with the
// lease, and simulations that are stepped. The protocol: docs/control_protocol.md.
//
// Addresses: "unix:/run/user/1000/vehicled/art.sock" or "tcp:127.0.0.1:7714" (with a token). Every call ends in its time limit, and
// every failure is an exception below vehicled::Error. An object belongs to one thread. POSIX (Linux, macOS).
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace vehicled {

constexpr int PROTOCOL_VERSION = 1;

// ---------------------------------------------------------------- errors

/// Base of all errors; what() says what happened and what to do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
/// No server, or the connection has ended.
struct ConnectionError : Error {
    using Error::Error;
};
/// No answer within the time limit. The connection is of no more use.
struct TimeoutError : Error {
    using Error::Error;
};
/// The server refused a request; the text is its reason.
struct RefusedError : Error {
    using Error::Error;
};
/// The vehicle no longer follows this program's setpoints: a person, a rule of the failsafe matrix or a request took over.
struct LeaseLostError : Error {
    using Error::Error;
};
/// A value that is not sent: not finite, or out of range.
struct ArgumentError : Error {
    using Error::Error;
};
/// The other side does not speak this protocol.
struct ProtocolError : Error {
    using Error::Error;
};

// ---------------------------------------------------------------- JSON

/// A JSON value. Numbers are doubles, so times in ns lose their last digits after 104 days of uptime.
class Json {
   public:
    enum class Kind { null, boolean, number, text, array, object };
    using Member = std::pair<std::string, Json>;

    Json() = default;
    Json(bool value) : kind_(Kind::boolean), number_(value ? 1.0 : 0.0) {}
    Json(double value) : kind_(Kind::number), number_(value) {}
    Json(int value) : Json(static_cast<double>(value)) {}
    Json(std::int64_t value) : Json(static_cast<double>(value)) {}
    Json(std::uint32_t value) : Json(static_cast<double>(value)) {}
    Json(const char* value) : kind_(Kind::text), text_(value) {}
    Json(std::string value) : kind_(Kind::text), text_(std::move(value)) {}
    /// An object: Json{{"do", "status"}}.
    Json(std::initializer_list<Member> members) : kind_(Kind::object), members_(members) {}

    Kind kind() const { return kind_; }
    bool is_null() const { return kind_ == Kind::null; }

    /// The member of an object; nullptr if there is none.
    const Json* find(std::string_view name) const {
        for (const auto& member : members_)
            if (member.first == name) return &member.second;
        return nullptr;
    }
    /// The member of an object. Throws ProtocolError if there is none.
    const Json& operator[](std::string_view name) const {
        if (const Json* found = find(name)) return *found;
        throw ProtocolError("the answer lacks the field \"" + std::string(name) + "\"");
    }
    /// A number; NaN for null, which stands for an unknown value.
    double number() const {
        if (kind_ == Kind::null) return std::numeric_limits<double>::quiet_NaN();
        need(Kind::number, "a number");
        return number_;
    }
    bool boolean() const {
        need(Kind::boolean, "true or false");
        return number_ != 0.0;
    }
    const std::string& text() const {
        need(Kind::text, "a text");
        return text_;
    }
    const std::vector<Json>& array() const {
        need(Kind::array, "an array");
        return items_;
    }
    const std::vector<Member>& members() const { return members_; }
    /// An array of numbers.
    std::vector<double> numbers() const {
        std::vector<double> found;
        found.reserve(array().size());
        for (const Json& item : items_) found.push_back(item.number());
        return found;
    }
    /// Adds a member to an object.
    void add(std::string name, Json value) {
        kind_ = Kind::object;
        members_.emplace_back(std::move(name), std::move(value));
    }

    /// Encodes the value. Throws ArgumentError for a number that is not finite: JSON has none.
    std::string dump() const {
        std::string out;
        write(out);
        return out;
    }

    /// Decodes a line. Throws ProtocolError.
    static Json parse(std::string_view line) {
        Parser parser{line, 0};
        Json value = parser.value(0);
        parser.blank();
        if (parser.at != line.size()) throw parser.malformed();
        return value;
    }

   private:
    struct Parser {
        std::string_view in;
        std::size_t at;
        static constexpr int MAX_DEPTH = 64;

        ProtocolError malformed() const {
            return ProtocolError("the program that answers is not vehicled: its line is no JSON at byte " + std::to_string(at));
        }
        void blank() {
            while (at < in.size() && (in[at] == ' ' || in[at] == '\t' || in[at] == '\r' || in[at] == '\n')) ++at;
        }
        char peek() const { return at < in.size() ? in[at] : '\0'; }
        void expect(std::string_view word) {
            if (in.substr(at, word.size()) != word) throw malformed();
            at += word.size();
        }
        Json value(int depth) {
            if (depth > MAX_DEPTH) throw malformed();
            blank();
            switch (peek()) {
                case '{': return object(depth);
                case '[': return array(depth);
                case '"': return Json(string());
                case 't': expect("true"); return Json(true);
                case 'f': expect("false"); return Json(false);
                case 'n': expect("null"); return Json();
                default: return number();
            }
        }
        Json object(int depth) {
            Json found;
            found.kind_ = Kind::object;
            ++at;
            blank();
            if (peek() == '}') return ++at, found;
            while (true) {
                blank();
                if (peek() != '"') throw malformed();
                std::string name = string();
                blank();
                expect(":");
                found.members_.emplace_back(std::move(name), value(depth + 1));
                blank();
                if (peek() == '}') return ++at, found;
                expect(",");
            }
        }
        Json array(int depth) {
            Json found;
            found.kind_ = Kind::array;
            ++at;
            blank();
            if (peek() == ']') return ++at, found;
            while (true) {
                found.items_.push_back(value(depth + 1));
                blank();
                if (peek() == ']') return ++at, found;
                expect(",");
            }
        }
        bool digits() {
            const std::size_t first = at;
            while (at < in.size() && in[at] >= '0' && in[at] <= '9') ++at;
            return at > first;
        }
        Json number() {
            const std::size_t first = at;
            if (peek() == '-') ++at;
            const bool zero = peek() == '0';
            const std::size_t whole = at;
            bool sound = digits() && !(zero && at > whole + 1);
            if (peek() == '.') ++at, sound = digits() && sound;
            if (peek() == 'e' || peek() == 'E') {
                ++at;
                if (peek() == '+' || peek() == '-') ++at;
                sound = digits() && sound;
            }
            if (!sound) throw malformed();
            return Json(to_double(in.substr(first, at - first)));
        }
        unsigned hex() {
            unsigned code = 0;
            for (int i = 0; i < 4; ++i, ++at) {
                const char c = peek();
                if (c >= '0' && c <= '9') code = code * 16 + static_cast<unsigned>(c - '0');
                else if (c >= 'a' && c <= 'f') code = code * 16 + static_cast<unsigned>(c - 'a' + 10);
                else if (c >= 'A' && c <= 'F') code = code * 16 + static_cast<unsigned>(c - 'A' + 10);
                else throw malformed();
            }
            return code;
        }
        void escape(std::string& out) {
            const char c = peek();
            ++at;
            switch (c) {
                case '"': case '\\': case '/': out += c; return;
                case 'b': out += '\b'; return;
                case 'f': out += '\f'; return;
                case 'n': out += '\n'; return;
                case 'r': out += '\r'; return;
                case 't': out += '\t'; return;
                case 'u': break;
                default: throw malformed();
            }
            unsigned code = hex();
            if (code >= 0xD800 && code < 0xDC00 && in.substr(at, 2) == "\\u") {
                at += 2;
                const unsigned low = hex();
                code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
            }
            if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;  // half of a pair
            if (code < 0x80) out += static_cast<char>(code);
            else if (code < 0x800) out += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
            else if (code < 0x10000)
                out += {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
                        static_cast<char>(0x80 | (code & 0x3F))};
            else
                out += {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
                        static_cast<char>(0x80 | (code >> 6 & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
        }
        std::string string() {
            std::string out;
            ++at;
            while (true) {
                if (at >= in.size() || static_cast<unsigned char>(in[at]) < 0x20) throw malformed();
                const char c = in[at++];
                if (c == '"') return out;
                if (c == '\\') escape(out);
                else out += c;
            }
        }
    };

    // Programs set locales in which a comma separates decimals; these two never depend on them.
    static double to_double(std::string_view text) {
#if defined(__cpp_lib_to_chars) && !defined(VEHICLED_STREAM_NUMBERS)
        double value = 0.0;
        const auto done = std::from_chars(text.data(), text.data() + text.size(), value);
        if (done.ec == std::errc::result_out_of_range) return text.front() == '-' ? -HUGE_VAL : HUGE_VAL;
        return value;
#else
        std::istringstream in{std::string(text)};
        in.imbue(std::locale::classic());
        double value = 0.0;
        in >> value;
        return value;
#endif
    }
    static std::string of_double(double value) {
#if defined(__cpp_lib_to_chars) && !defined(VEHICLED_STREAM_NUMBERS)
        char buffer[32];
        return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
#else
        std::ostringstream out;
        out.imbue(std::locale::classic());
        out.precision(17);
        out << value;
        return out.str();
#endif
    }

    void need(Kind kind, const char* what) const {
        if (kind_ != kind) throw ProtocolError(std::string("the answer has something else in the place of ") + what);
    }
    static void quote(std::string& out, const std::string& text) {
        static const char* const hex = "0123456789abcdef";
        out += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') (out += '\\') += c;
            else if (static_cast<unsigned char>(c) < 0x20) ((out += "\\u00") += hex[c >> 4]) += hex[c & 15];
            else out += c;
        }
        out += '"';
    }
    void write(std::string& out) const {
        switch (kind_) {
            case Kind::null: out += "null"; break;
            case Kind::boolean: out += number_ != 0.0 ? "true" : "false"; break;
            case Kind::number:
                if (!std::isfinite(number_)) throw ArgumentError("a number that is not finite cannot be sent");
                out += of_double(number_);
                break;
            case Kind::text: quote(out, text_); break;
            case Kind::array:
                out += '[';
                for (std::size_t i = 0; i < items_.size(); ++i) {
                    if (i) out += ',';
                    items_[i].write(out);
                }
                out += ']';
                break;
            case Kind::object:
                out += '{';
                for (std::size_t i = 0; i < members_.size(); ++i) {
                    if (i) out += ',';
                    quote(out, members_[i].first);
                    out += ':';
                    members_[i].second.write(out);
                }
                out += '}';
        }
    }

    Kind kind_ = Kind::null;
    double number_ = 0.0;
    std::string text_;
    std::vector<Json> items_;
    std::vector<Member> members_;
};

// ---------------------------------------------------------------- connection

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Lines to and from a server, each with a time limit.
class Connection {
   public:
    Connection(const std::string& address, Seconds timeout) : address_(address) {
        const auto deadline = after(timeout);
        if (address.rfind("unix:", 0) == 0) connect_unix(address.substr(5), deadline);
        else if (address.rfind("tcp:", 0) == 0) connect_tcp(address.substr(4), deadline);
        else throw ArgumentError("\"" + address + "\" is no address: use unix:PATH or tcp:HOST:PORT");
    }
    Connection(Connection&& other) noexcept
        : address_(std::move(other.address_)),
          socket_(std::exchange(other.socket_, -1)),
          buffer_(std::move(other.buffer_)),
          scanned_(other.scanned_),
          broken_(std::move(other.broken_)) {}
    Connection& operator=(Connection&&) = delete;
    ~Connection() { close(); }

    void close() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }

    /// Sends a line. A line that cannot be sent in whole ends the connection.
    void send(const std::string& line, Seconds timeout) {
        check();
        const std::string data = line + "\n";
        const auto deadline = after(timeout);
        std::size_t sent = 0;
        while (sent < data.size()) {
#if defined(MSG_NOSIGNAL)
            const ssize_t n = ::send(socket_, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
#else
            const ssize_t n = ::send(socket_, data.data() + sent, data.size() - sent, 0);
#endif
            if (n >= 0) sent += static_cast<std::size_t>(n);
            else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                if (!ready(POLLOUT, deadline)) throw give_up<TimeoutError>(address_ + " does not read what is sent to it");
            } else if (errno != EINTR) {
                // The last line of the server gives the reason.
                const std::string failed = std::strerror(errno);
                try {
                    while (receive(Seconds(0.2))) {}
                } catch (const TimeoutError&) {
                }
                throw give_up<ConnectionError>(address_ + " has closed the connection: " + failed);
            }
        }
    }

    /// Waits for the next answer. Throws TimeoutError, ConnectionError, RefusedError.
    Json answer(Seconds timeout) {
        if (std::optional<Json> found = receive(timeout)) return *std::move(found);
        throw give_up<TimeoutError>("no answer from " + address_ + " in time: it may be frozen");
    }

    /// Returns the next answer, or nothing if none comes in the time; 0 s asks for what is there already.
    std::optional<Json> receive(Seconds timeout) {
        check();
        const auto deadline = after(timeout);
        while (true) {
            const std::size_t end = buffer_.find('\n', scanned_);
            if (end != std::string::npos) {
                const std::string line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                scanned_ = 0;
                return checked(line);
            }
            scanned_ = buffer_.size();
            if (buffer_.size() > MAX_LINE) throw give_up<ProtocolError>(address_ + " sends a line without an end");
            if (!ready(POLLIN, deadline)) return std::nullopt;
            char data[1 << 14];
            const ssize_t n = ::recv(socket_, data, sizeof data, 0);
            if (n > 0) buffer_.append(data, static_cast<std::size_t>(n));
            else if (n == 0)
                throw give_up<ConnectionError>(
                    address_ + (buffer_.empty() ? " has closed the connection without giving a reason"
                                                : " has closed the connection in the middle of a line"));
            else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
                throw give_up<ConnectionError>(address_ + " has closed the connection: " + std::strerror(errno));
        }
    }

    const std::string& address() const { return address_; }

   private:
    static constexpr std::size_t MAX_LINE = 8u << 20;

    static Clock::time_point after(Seconds timeout) {
        return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
    }

    Json checked(const std::string& line) {
        Json found;
        try {
            found = Json::parse(line);
        } catch (const ProtocolError& error) {
            throw give_up<ProtocolError>(address_ + ": " + error.what());
        }
        if (found.kind() != Json::Kind::object) throw give_up<ProtocolError>(address_ + " does not answer as vehicled does");
        const Json* why = found.find("why");
        const std::string text = why && why->kind() == Json::Kind::text ? why->text() : "no reason given";
        if (const Json* ended = found.find("ended"); ended && ended->kind() == Json::Kind::boolean && ended->boolean())
            throw give_up<ConnectionError>(address_ + " has ended the connection: " + text);
        const Json* ok = found.find("ok");
        if (!ok || ok->kind() != Json::Kind::boolean) throw give_up<ProtocolError>(address_ + " does not answer as vehicled does");
        if (!ok->boolean()) throw RefusedError(text);
        return found;
    }

    template <typename Kind>
    Kind give_up(const std::string& why) {
        broken_ = why;
        close();
        return Kind(why);
    }
    void check() const {
        if (socket_ < 0) throw ConnectionError("connect again: " + (broken_.empty() ? "the connection was closed" : broken_));
    }

    bool ready(short events, Clock::time_point deadline) const {
        while (true) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
            pollfd waits{socket_, events, 0};
            const int wait_ms = static_cast<int>(std::clamp<long long>(left, 0, 1'000'000'000));
            const int n = ::poll(&waits, 1, wait_ms);
            if (n > 0) return true;
            if (n == 0) return false;
            if (errno != EINTR) return true;
        }
    }

    int prepared(int family) {
        socket_ = ::socket(family, SOCK_STREAM, 0);
        if (socket_ < 0) throw ConnectionError(std::string("no socket can be opened: ") + std::strerror(errno));
        ::fcntl(socket_, F_SETFL, O_NONBLOCK);
        ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
        const int on = 1;
        if (family != AF_UNIX) ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#if defined(SO_NOSIGPIPE)
        ::setsockopt(socket_, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
        return socket_;
    }
    /// Returns 0 or the error of a connection.
    int connected(const sockaddr* to, socklen_t size, Clock::time_point deadline) {
        while (true) {
            if (::connect(socket_, to, size) == 0) return 0;
            if (errno == EAGAIN) {
                // Too many programs connect to a Unix socket at once.
                if (Clock::now() >= deadline) return ETIMEDOUT;
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                continue;
            }
            if (errno != EINPROGRESS && errno != EINTR) return errno;
            if (!ready(POLLOUT, deadline)) return ETIMEDOUT;
            int failed = 0;
            socklen_t length = sizeof failed;
            ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failed, &length);
            return failed;
        }
    }
    ConnectionError absent(int failed) {
        close();
        return ConnectionError("no server answers at " + address_ + ": " + std::strerror(failed) +
                               "; start vehicled sim --clock wall, vehicled run or vehicled serve");
    }
    void connect_unix(const std::string& path, Clock::time_point deadline) {
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        if (path.empty() || path.size() >= sizeof to.sun_path) throw ArgumentError("the path of a Unix socket has at most 107 bytes");
        std::memcpy(to.sun_path, path.data(), path.size());
        prepared(AF_UNIX);
        if (const int failed = connected(reinterpret_cast<const sockaddr*>(&to), sizeof to, deadline)) throw absent(failed);
    }
    void connect_tcp(const std::string& rest, Clock::time_point deadline) {
        const std::size_t colon = rest.rfind(':');
        std::string host = rest.substr(0, colon == std::string::npos ? 0 : colon);
        const std::string port = colon == std::string::npos ? "" : rest.substr(colon + 1);
        if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
        if (host.empty() || port.empty() || port.find_first_not_of("0123456789") != std::string::npos)
            throw ArgumentError("\"" + address_ + "\" is no address: use tcp:HOST:PORT");
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list))
            throw ConnectionError("no server at " + address_ + ": " + ::gai_strerror(failed));
        int failed = 0;
        try {
            for (const addrinfo* each = list; each; each = each->ai_next) {
                prepared(each->ai_family);
                failed = connected(each->ai_addr, each->ai_addrlen, deadline);
                if (failed == 0) break;
                close();
            }
        } catch (...) {
            ::freeaddrinfo(list);
            throw;
        }
        ::freeaddrinfo(list);
        if (failed) throw absent(failed);
    }

    std::string address_;
    int socket_ = -1;
    std::string buffer_;
    std::size_t scanned_ = 0;
    std::string broken_;
};

// ---------------------------------------------------------------- requests

/// The token that a command line gives: "@FILE" stands for the content of a file, which other users do not see in the list of
/// processes.
inline std::string token_of(const std::string& given) {
    if (given.empty() || given.front() != '@') return given;
    std::ifstream in(given.substr(1));
    std::string token;
    if (!(in >> token)) throw ArgumentError("no token can be read from " + given.substr(1));
    return token;
}

/// The line to drive, and a pure-pursuit law along it.
struct Path {
    std::string name;
    bool closed = false;
    double length_m = 0.0;
    std::vector<double> s_m, x_m, y_m, yaw_rad, curvature_per_m, speed_mps;

    struct Place {
        double s_m = 0.0;            ///< arc length of the nearest point
        double cross_track_m = 0.0;  ///< positive left of the path
        double speed_mps = 0.0;      ///< target speed there
    };

    static Path of(const Json& answer) {
        const Json& path = answer["path"];
        if (path.is_null()) throw RefusedError("this run has no course");
        Path found;
        found.name = path["name"].text();
        found.closed = path["closed"].boolean();
        found.length_m = path["length_m"].number();
        found.s_m = path["s_m"].numbers();
        found.x_m = path["x_m"].numbers();
        found.y_m = path["y_m"].numbers();
        found.yaw_rad = path["yaw_rad"].numbers();
        found.curvature_per_m = path["curvature_per_m"].numbers();
        found.speed_mps = path["speed_mps"].numbers();
        const std::size_t size = found.s_m.size();
        for (const auto* column : {&found.x_m, &found.y_m, &found.yaw_rad, &found.curvature_per_m, &found.speed_mps})
            if (column->size() != size) throw ProtocolError("the columns of the path have different lengths");
        if (size < 2) throw ProtocolError("the path has fewer than two points");
        return found;
    }

    /// The nearest place, at most a quarter of the path ahead of and a metre behind `near_s_m`: a path may cross itself.
    /// With NaN for `near_s_m` it is sought everywhere. Throws ArgumentError if the place is unknown (null in the message, so NaN here).
    Place locate(double x, double y, double near_s_m) const {
        if (!std::isfinite(x + y)) throw ArgumentError("the place is unknown: x or y is not finite");
        std::size_t best = 0;
        double least = HUGE_VAL;
        for (std::size_t i = 0; i < x_m.size(); ++i) {
            double ahead = s_m[i] - near_s_m;
            if (closed) ahead = std::remainder(ahead, length_m);
            if (ahead < -1.0 || ahead > std::max(0.25 * length_m, 2.0)) continue;
            const double away = std::hypot(x_m[i] - x, y_m[i] - y);
            if (away < least) least = away, best = i;
        }
        // The tangent corrects for the distance of the points.
        const double c = std::cos(yaw_rad[best]), s = std::sin(yaw_rad[best]);
        const double dx = x - x_m[best], dy = y - y_m[best];
        return {s_m[best] + c * dx + s * dy, c * dy - s * dx, speed_mps[best]};
    }

    /// Curvature of the circle through the rear axle and the point `ahead_m` further along (Coulter 1992).
    double pursue(double x, double y, double yaw, double s, double ahead_m) const {
        double goal_s = s + ahead_m;
        goal_s = closed ? std::fmod(std::fmod(goal_s, length_m) + length_m, length_m) : std::min(goal_s, s_m.back());
        const std::size_t after = static_cast<std::size_t>(std::lower_bound(s_m.begin(), s_m.end(), goal_s) - s_m.begin());
        const std::size_t b = after == s_m.size() ? (closed ? 0 : s_m.size() - 1) : after;
        const std::size_t a = after == 0 ? (closed ? s_m.size() - 1 : 0) : after - 1;
        const double sa = after == 0 && closed ? s_m[a] - length_m : s_m[a], sb = after == s_m.size() && closed ? length_m : s_m[b];
        const double f = sb > sa ? std::clamp((goal_s - sa) / (sb - sa), 0.0, 1.0) : 0.0;
        const double dx = x_m[a] + f * (x_m[b] - x_m[a]) - x, dy = y_m[a] + f * (y_m[b] - y_m[a]) - y;
        const double left = std::cos(yaw) * dy - std::sin(yaw) * dx, squared = dx * dx + dy * dy;
        return squared > 1e-6 ? 2.0 * left / squared : 0.0;
    }
};

/// Ranges of a LaserScan as REP-117 has them: +infinity for no return, -infinity for something nearer than the minimum, NaN for an
/// invalid ray. Without the text `rays`, of older servers, all that are unknown are NaN.
inline std::vector<double> scan_ranges(const Json& scan) {
    std::vector<double> found = scan["ranges_m"].numbers();
    const Json* rays = scan.find("rays");
    if (rays == nullptr) return found;
    const std::string& letters = rays->text();
    if (letters.size() != found.size()) throw ProtocolError("rays has another length than ranges_m");
    const double infinity = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (letters[i] == 'o') found[i] = infinity;
        if (letters[i] == 'n') found[i] = -infinity;
    }
    return found;
}

/// Connection to a server of the protocol `kind`, "control" or "step".
class Session {
   public:
    Session(const std::string& address, const std::string& token, Seconds timeout, const char* kind)
        : timeout_(timeout), connection_(address, timeout) {
        greeting = ask({{"do", "hello"}, {"version", PROTOCOL_VERSION}, {"token", token}}, std::min(timeout, Seconds(5.0)));
        const std::string& protocol = greeting["protocol"].text();
        if (greeting["version"].number() != PROTOCOL_VERSION)
            throw ProtocolError(address + " speaks another version of the protocol: update the older of the two");
        if (protocol != kind)
            throw ProtocolError(address + " is a server of the protocol \"" + protocol + "\", not of \"" + kind + "\"");
    }
    /// Sends a request and returns its answer. Throws RefusedError if it is refused.
    Json ask(const Json& request) { return ask(request, timeout_); }
    Json ask(const Json& request, Seconds timeout) {
        connection_.send(request.dump(), timeout_);
        return connection_.answer(timeout);
    }
    Connection& connection() { return connection_; }
    Path path(int points = 1000) { return Path::of(ask({{"do", "path"}, {"points", points}})); }

    Json greeting;  ///< answer to the hello

   protected:
    Seconds timeout_;
    Connection connection_;
};

/// Requests to a running daemon.
class Client : public Session {
   public:
    explicit Client(const std::string& address, const std::string& token = "", Seconds timeout = Seconds(5.0))
        : Session(address, token, timeout, "control") {}
    Json status() { return ask({{"do", "status"}})["status"]; }
    /// "arm", "disarm", "drive", "offboard", "stop", "emergency_stop", "reset", ...
    void request(const std::string& action, const std::string& origin = "C++ client") {
        ask({{"do", "request"}, {"action", action}, {"origin", origin}});
    }
};

/// Messages of one topic, on a connection of their own.
class Subscription : public Session {
   public:
    Subscription(const std::string& address, const std::string& token, const std::string& topic, double rate_hz = 20.0,
                 Seconds timeout = Seconds(5.0))
        : Session(address, token, timeout, "control"), topic_(topic) {
        connection_.send(Json{{"do", "subscribe"}, {"topic", topic}, {"rate_hz", rate_hz}}.dump(), timeout);
    }
    /// Waits for the next message. Throws TimeoutError if the topic is silent for so long; the subscription stays usable.
    Json next(Seconds timeout) {
        const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
        while (true) {
            const Seconds left = std::max<Seconds>(Seconds(0.0), deadline - Clock::now());
            std::optional<Json> found = connection_.receive(left);
            if (!found) throw TimeoutError("no message of " + topic_ + " in time");
            // Without a message the daemon answers once a second, to notice a client that is gone.
            if (const Json* message = found->find("message")) return *message;
        }
    }
    /// The newest message that has arrived; nothing if there is none.
    std::optional<Json> newest() {
        std::optional<Json> last;
        while (std::optional<Json> found = connection_.receive(Seconds(0.0)))
            if (const Json* message = found->find("message")) last = *message;
        return last;
    }

   private:
    std::string topic_;
};

/// Stream of setpoints that holds the lease. A second connection watches the mode, so that the loss of the lease is an exception of
/// the next send().
class SetpointStream {
   public:
    SetpointStream(const std::string& address, const std::string& token = "", std::string origin = "C++ client",
                   Seconds timeout = Seconds(5.0))
        : client_(address, token, timeout), watch_(address, token, timeout), origin_(std::move(origin)), timeout_(timeout) {
        watch_.connection().send(Json{{"do", "watch"}, {"rate_hz", 20.0}}.dump(), timeout);
        update(watch_.connection().answer(timeout));
    }

    /// Arms the vehicle and enters OFFBOARD, standing still meanwhile; from a drive along the course it changes over.
    /// Throws TimeoutError with what the daemon waits for.
    void start(Seconds timeout = Seconds(20.0)) {
        const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
        was_armed_ = false;
        bool armed = false, asked = false;
        while (mode_ != "OFFBOARD") {
            if ((was_armed_ || asked) && mode_ != "ARMED" && mode_ != "AUTO")
                throw LeaseLostError("the vehicle does not follow the setpoints: " + mode_ + ": " + why_);
            if (Clock::now() > deadline) throw TimeoutError("the drive does not begin: " + mode_ + ": " + why_ + waits_);
            send(0.0, 0.0);
            const bool ready = mode_ == "ARMED" || mode_ == "AUTO";
            if (!armed && !ready && mode_ != "OFFBOARD") {
                client_.status();  // Answered in order: without the lease the refusal comes first, and nothing is armed.
                client_.request("arm", origin_), armed = true;
            }
            if (!asked && ready) client_.request("offboard", origin_), asked = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        driving_ = true;
    }

    /// Sends a setpoint: speed, and the curvature of the path, positive left. Call it at 10 to 100 Hz; after 0.2 s without one the
    /// vehicle brakes.
    void send(double speed_mps, double curvature_per_m) { send(speed_mps, "curvature_per_m", curvature_per_m, 100.0); }
    /// The same with the angle of the front wheels.
    void send_wheel_angle(double speed_mps, double wheel_angle_rad) { send(speed_mps, "wheel_angle_rad", wheel_angle_rad, 1.6); }

    /// Brakes to a standstill and disarms.
    void stop(Seconds timeout = Seconds(10.0)) {
        driving_ = false;
        client_.request("disarm", origin_);
        const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
        while (mode_ != "STANDBY") {
            if (Clock::now() > deadline) throw TimeoutError("the vehicle does not come to rest: " + mode_ + ": " + why_);
            try {
                update(watch_.connection().answer(timeout_));
            } catch (const ConnectionError&) {
                return;  // The run has ended with the drive.
            }
        }
    }

    const std::string& mode() const { return mode_; }
    const std::string& why() const { return why_; }

   private:
    void send(double speed, const char* turn, double value, double largest) {
        check("speed_mps", speed, 100.0);
        check(turn, value, largest);
        Json line{{"do", "setpoint"}, {"speed_mps", speed}, {turn, value}, {"sequence", ++sequence_}, {"origin", origin_}};
        client_.connection().send(line.dump(), timeout_);
        while (client_.connection().receive(Seconds(0.0))) {}  // Only a refusal is answered, and is an exception.
        while (std::optional<Json> found = watch_.connection().receive(Seconds(0.0))) update(*found);
        if (Clock::now() - heard_ > Seconds(timeout_)) throw TimeoutError("no state from the daemon in time: it may be frozen");
        if (driving_ && mode_ != "OFFBOARD") {
            driving_ = false;
            throw LeaseLostError("the vehicle no longer follows the setpoints: " + mode_ + ": " + why_);
        }
    }
    static void check(const char* name, double value, double largest) {
        if (!std::isfinite(value) || std::fabs(value) > largest) {
            std::ostringstream text;
            text << name << " = " << value << ": give a finite number from " << -largest << " to " << largest;
            throw ArgumentError(text.str());
        }
    }
    void update(const Json& answer) {
        const Json& status = answer["status"];
        mode_ = status["mode"].text();
        why_ = status["why"].text();
        was_armed_ = was_armed_ || mode_ == "ARMED" || mode_ == "OFFBOARD";
        waits_.clear();
        for (const Json& each : status["waiting_for"].array()) waits_ += "; waits for " + each.text();
        heard_ = Clock::now();
    }

    Client client_;
    Client watch_;
    std::string origin_, mode_, why_, waits_;
    Seconds timeout_;
    std::uint32_t sequence_ = 0;
    bool driving_ = false, was_armed_ = false;
    Clock::time_point heard_ = Clock::now();
};

/// A simulation of `vehicled serve simulation`. Time stands still between two steps.
class Simulation : public Session {
   public:
    explicit Simulation(const std::string& address, const std::string& token = "", Seconds timeout = Seconds(30.0))
        : Session(address, token, timeout, "step"), period_s(greeting["period_s"].number()) {}

    /// Begins the drive again, and returns the first observation.
    Json reset(std::optional<std::int64_t> seed = std::nullopt) {
        Json request{{"do", "reset"}};
        if (seed) request.add("seed", *seed);
        return ask(request)["observation"];
    }
    /// Goes on for one period, or until a time, with the profile's controller.
    Json step(std::optional<double> until_s = std::nullopt) { return step(Json{{"do", "step"}}, until_s); }
    /// The same with a setpoint: speed, and the curvature of the path, positive left.
    Json step(double speed_mps, double curvature_per_m, std::optional<double> until_s = std::nullopt) {
        return step({{"do", "step"}, {"speed_mps", speed_mps}, {"curvature_per_m", curvature_per_m}}, until_s);
    }
    Json observe(bool scan = false) { return ask({{"do", "observe"}, {"scan", scan}})["observation"]; }

    const double period_s;  ///< length of a step

   private:
    Json step(Json request, std::optional<double> until_s) {
        if (until_s) request.add("until_s", *until_s);
        return ask(request)["observation"];
    }
};

}  // namespace vehicled
