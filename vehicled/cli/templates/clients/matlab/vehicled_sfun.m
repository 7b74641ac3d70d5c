function vehicled_sfun(block)
  % Level-2 MATLAB S-function that steps a simulation of vehicled serve simulation.
  %
  % Block "Level-2 MATLAB S-Function", name vehicled_sfun, parameters: address, token, seed, sample time. The sample time is a
  % multiple of the simulation's period, at most 0.1 s (a setpoint older than 0.2 s brakes the vehicle):
  %   'tcp:127.0.0.1:7715', token, 1, 0.05
  % Input: [speed, m/s; curvature, 1/m]. Output: [x; y; yaw; speed] of the estimate, [x; y; yaw; speed] of the truth, and 1 while
  % the vehicle follows the setpoints. Simulink's time counts from the reset.
  setup(block);
end

function setup(block)
  block.NumDialogPrms = 4;
  block.DialogPrmsTunable = {'Nontunable', 'Nontunable', 'Nontunable', 'Nontunable'};
  block.NumInputPorts = 1;
  block.NumOutputPorts = 1;
  block.SetPreCompInpPortInfoToDynamic;
  block.SetPreCompOutPortInfoToDynamic;
  block.InputPort(1).DatatypeID = 0;  % double
  block.InputPort(1).Complexity = 'Real';
  block.InputPort(1).Dimensions = 2;
  block.InputPort(1).DirectFeedthrough = false;
  block.OutputPort(1).DatatypeID = 0;
  block.OutputPort(1).Complexity = 'Real';
  block.OutputPort(1).Dimensions = 9;
  period_s = block.DialogPrm(4).Data;
  vehicled.check('the sample time', period_s, 0.1);
  block.SampleTimes = [period_s 0];
  block.RegBlockMethod('SetInputPortSamplingMode', @sampling);
  block.RegBlockMethod('Start', @start);
  block.RegBlockMethod('Outputs', @outputs);
  block.RegBlockMethod('Update', @update);
  block.RegBlockMethod('Terminate', @terminate);
end

function sampling(block, ~, mode)
  block.InputPort(1).SamplingMode = mode;
  block.OutputPort(1).SamplingMode = mode;
end

function start(block)
  simulation = vehicled.Simulation(block.DialogPrm(1).Data, block.DialogPrm(2).Data);
  seen = simulation.reset(block.DialogPrm(3).Data);
  kept('set', block.BlockHandle, struct('simulation', simulation, 'seen', seen, 'began_s', seen.time_s, 'steps', 0));
end

function outputs(block)
  state = kept('get', block.BlockHandle);
  seen = state.seen;
  block.OutputPort(1).Data = [pose(seen.estimate); pose(seen.truth); double(strcmp(seen.mode, 'OFFBOARD'))];
end

function update(block)
  state = kept('get', block.BlockHandle);
  if state.seen.over
    error('vehicled:over', 'the drive is over: %s', state.seen.why);
  end
  state.steps = state.steps + 1;
  demand = block.InputPort(1).Data;
  % From the count, because a sum of sample times would drift.
  until_s = state.began_s + state.steps * block.DialogPrm(4).Data;
  state.seen = state.simulation.step(demand(1), demand(2), until_s);
  kept('set', block.BlockHandle, state);
end

function terminate(block)
  state = kept('get', block.BlockHandle);
  if ~isempty(state)
    close(state.simulation);
    kept('remove', block.BlockHandle);
  end
end

function found = pose(message)
  % Unknown values are null in the protocol, [] here and NaN in a signal.
  found = nan(4, 1);
  if ~isempty(message)
    values = {message.x_m, message.y_m, message.yaw_rad, message.speed_mps};
    known = ~cellfun(@isempty, values);
    found(known) = [values{known}];
  end
end

function found = kept(what, handle, value)
  % State of each block; work vectors hold no objects.
  persistent states
  if isempty(states)
    states = containers.Map('KeyType', 'double', 'ValueType', 'any');
  end
  found = [];
  switch what
    case 'set'
      states(handle) = value;
    case 'get'
      if isKey(states, handle)
        found = states(handle);
      end
    case 'remove'
      remove(states, handle);
  end
end
