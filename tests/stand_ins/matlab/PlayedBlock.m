classdef PlayedBlock < handle
  % Run-time block of Simulink as far as an S-function of level 2 uses it.
  properties
    NumDialogPrms = 0
    NumInputPorts = 0
    NumOutputPorts = 0
    InputPort = struct('Dimensions', 0, 'DirectFeedthrough', true, 'SamplingMode', '', 'Data', [])
    OutputPort = struct('Dimensions', 0, 'SamplingMode', '', 'Data', [])
    DialogPrm
    DialogPrmsTunable = {}
    SampleTimes
    BlockHandle = 7
    methods_of_it
  end
  methods
    function obj = PlayedBlock(parameters)
      obj.DialogPrm = struct('Data', parameters);
      obj.methods_of_it = struct();
    end
    function SetPreCompInpPortInfoToDynamic(~)
    end
    function SetPreCompOutPortInfoToDynamic(~)
    end
    function RegBlockMethod(obj, name, callback)
      obj.methods_of_it.(name) = callback;
    end
    function call(obj, name)
      callback = obj.methods_of_it.(name);
      callback(obj);
    end
  end
end
