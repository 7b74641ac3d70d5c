// A node on Fast DDS that knows only names and bytes of a topic, as rmw_fastrtps does.
//   fastdds_node read|write DOMAIN TOPIC TYPE RELIABILITY DURABILITY
// read: prints every record as a line of hexadecimal digits. write: publishes every such line of its standard input.
// RELIABILITY: reliable or best_effort. DURABILITY: volatile or latched. It ends with its standard input.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <iostream>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
using eprosima::fastrtps::rtps::SerializedPayload_t;
using Bytes = std::vector<unsigned char>;

class BytesType : public TopicDataType {
 public:
  explicit BytesType(const char* name) {
    setName(name);
    m_typeSize = 1 << 20;
    m_isGetKeyDefined = false;
    auto_fill_type_object(false);
    auto_fill_type_information(false);
  }
  bool serialize(void* data, SerializedPayload_t* payload) override {
    const Bytes& bytes = *static_cast<Bytes*>(data);
    std::memcpy(payload->data, bytes.data(), bytes.size());
    payload->length = static_cast<uint32_t>(bytes.size());
    return true;
  }
  bool deserialize(SerializedPayload_t* payload, void* data) override {
    static_cast<Bytes*>(data)->assign(payload->data, payload->data + payload->length);
    return true;
  }
  std::function<uint32_t()> getSerializedSizeProvider(void* data) override {
    return [data] { return static_cast<uint32_t>(static_cast<Bytes*>(data)->size()); };
  }
  void* createData() override { return new Bytes; }
  void deleteData(void* data) override { delete static_cast<Bytes*>(data); }
  bool getKey(void*, InstanceHandle_t*, bool) override { return false; }
};

template <class Qos>
void set(Qos& qos, const std::string& reliability, const std::string& durability) {
  qos.endpoint().history_memory_policy = PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
  qos.reliability().kind = reliability == "reliable" ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
  qos.durability().kind = durability == "latched" ? TRANSIENT_LOCAL_DURABILITY_QOS : VOLATILE_DURABILITY_QOS;
  qos.history().kind = KEEP_LAST_HISTORY_QOS;
  qos.history().depth = 1000;
}

bool input_ended() {
  pollfd waiting{0, POLLIN, 0};
  char ignored[64];
  return poll(&waiting, 1, 0) > 0 && ::read(0, ignored, sizeof ignored) == 0;
}

void read_topic(DomainParticipant* participant, Topic* topic, const char* reliability, const char* durability) {
  DataReaderQos qos = DATAREADER_QOS_DEFAULT;
  set(qos, reliability, durability);
  DataReader* reader = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT)->create_datareader(topic, qos);
  while (!input_ended()) {
    Bytes record;
    SampleInfo info;
    while (reader->take_next_sample(&record, &info) == ReturnCode_t::RETCODE_OK) {
      if (!info.valid_data) continue;
      for (unsigned char byte : record) std::printf("%02x", byte);
      std::printf("\n");
    }
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void write_topic(DomainParticipant* participant, Topic* topic, const char* reliability, const char* durability) {
  DataWriterQos qos = DATAWRITER_QOS_DEFAULT;
  set(qos, reliability, durability);
  DataWriter* writer = participant->create_publisher(PUBLISHER_QOS_DEFAULT)->create_datawriter(topic, qos);
  std::string line;
  while (std::getline(std::cin, line)) {
    Bytes record;
    for (size_t at = 0; at + 1 < line.size(); at += 2)
      record.push_back(static_cast<unsigned char>(std::strtol(line.substr(at, 2).c_str(), nullptr, 16)));
    writer->write(&record);
  }
}

int main(int count, char** words) {
  if (count != 7) return 2;
  DomainParticipant* participant =
      DomainParticipantFactory::get_instance()->create_participant(std::atoi(words[2]), PARTICIPANT_QOS_DEFAULT);
  if (participant == nullptr) return 1;
  TypeSupport type(new BytesType(words[4]));
  type.register_type(participant);
  Topic* topic = participant->create_topic(words[3], words[4], TOPIC_QOS_DEFAULT);
  (std::string(words[1]) == "read" ? read_topic : write_topic)(participant, topic, words[5], words[6]);
  participant->delete_contained_entities();
  DomainParticipantFactory::get_instance()->delete_participant(participant);
  return 0;
}
