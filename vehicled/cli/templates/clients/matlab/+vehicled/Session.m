classdef Session < handle
  % Connection to a server of the protocol 'control' or 'step', after the hello.

  properties (SetAccess = private)
    connection
    greeting      % answer to the hello
  end
  properties (Constant)
    VERSION = 1
  end

  methods
    function obj = Session(address, token, timeout_s, kind)
      obj.connection = vehicled.Connection(address, timeout_s);
      obj.greeting = ask(obj, struct('do', 'hello', 'version', obj.VERSION, 'token', char(token)), min(timeout_s, 5));
      if ~(isfield(obj.greeting, 'protocol') && isfield(obj.greeting, 'version') && obj.greeting.version == obj.VERSION)
        error('vehicled:protocol', '%s speaks another version of the protocol: update the older of the two', char(address));
      end
      if ~strcmp(obj.greeting.protocol, kind)
        error('vehicled:protocol', '%s is a server of the protocol "%s", not of "%s"', char(address), ...
              obj.greeting.protocol, kind);
      end
    end

    function found = ask(obj, request, timeout_s)
      % Send a request and return its answer. A refusal is the error vehicled:refused.
      send(obj.connection, jsonencode(request));
      if nargin < 3
        timeout_s = obj.connection.timeout_s;
      end
      found = answer(obj.connection, timeout_s);
    end

    function found = path(obj, points)
      % Return the course: s_m, x_m, y_m, yaw_rad, curvature_per_m, speed_mps, closed, length_m, name.
      if nargin < 2
        points = 1000;
      end
      found = ask(obj, struct('do', 'path', 'points', points));
      found = found.path;
      if isempty(found)
        error('vehicled:refused', 'this run has no course');
      end
    end

    function close(obj)
      close(obj.connection);
    end
  end
end
