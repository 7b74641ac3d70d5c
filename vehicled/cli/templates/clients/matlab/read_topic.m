function values = read_topic(address, token, topic, field, count)
  % Return a field of the next messages of a topic of a running daemon, one row each:
  %   speed = read_topic('tcp:127.0.0.1:7714', token, 'state_estimate', 'speed_mps', 20)
  subscription = vehicled.Subscription(address, token, topic, 100);
  values = [];
  for k = 1:count
    message = next(subscription, 5);
    values(k, :) = message.(field); %#ok<AGROW>
  end
  close(subscription);
end
