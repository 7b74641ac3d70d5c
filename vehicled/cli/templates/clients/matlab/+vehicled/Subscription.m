classdef Subscription < vehicled.Session
  % Messages of one topic, on a connection of their own:
  % estimates = vehicled.Subscription('tcp:127.0.0.1:7714', token, 'state_estimate', 50); message = estimates.next(1)

  properties (SetAccess = private)
    topic
  end

  methods
    function obj = Subscription(address, token, topic, rate_hz, timeout_s)
      if nargin < 4
        rate_hz = 20;
      end
      if nargin < 5
        timeout_s = 5;
      end
      obj@vehicled.Session(address, token, timeout_s, 'control');
      obj.topic = topic;
      send(obj.connection, jsonencode(struct('do', 'subscribe', 'topic', topic, 'rate_hz', rate_hz)));
    end

    function message = next(obj, timeout_s)
      % Wait for the next message. The error vehicled:timeout leaves the subscription usable.
      began = tic;
      while true
        found = receive(obj.connection, max(timeout_s - toc(began), 0));
        if isempty(found)
          error('vehicled:timeout', 'no message of %s within %g s', obj.topic, timeout_s);
        end
        % Without a message the daemon answers once a second, to notice a client that is gone.
        if isfield(found, 'message')
          message = found.message;
          return
        end
      end
    end
  end
end
