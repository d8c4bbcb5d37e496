-- Wireshark dissector for Fusewire: TCP in UDP (docs/encapsulation.md), and the records within a stream
-- (docs/records.md); XTP in UDP (docs/xtp.md). It shows headers; it does not decrypt records.
--
--   wireshark -X lua_script:docs/fusewire.lua        or copy it into the personal Lua plugin folder
--
-- Both encapsulations are found on any UDP port by their checksum; where Wireshark has another protocol for the
-- port, set the preference udp.try_heuristic_first. Records over kernel TCP: Decode As, FUSEWIRE.
-- The TLS handshake before the records is given to Wireshark's own TLS dissector, which decrypts it with
-- the file of --key-log. After the handshake the length of a record depends on the cipher: see preferences.

local HEADER_LEN = 16
local TCP_PORT = 9293 -- the port inside of the encapsulation that a Fusewire server listens on

local types = { [1] = "ADU", [2] = "end of stream", [3] = "padding", [4] = "close" }

local encapsulation = Proto("fusewire_udp", "Fusewire Encapsulation")
local segments_field = ProtoField.uint32("fusewire_udp.segments", "TPDUs in this datagram")
local checksum_field = ProtoField.bool("fusewire_udp.checksum_good", "Checksum with the constant pseudo-header is right")
encapsulation.fields = { segments_field, checksum_field }

local records = Proto("fusewire", "Fusewire Records")
local field = {
  type = ProtoField.uint8("fusewire.record.type", "Type", base.DEC, types),
  flags = ProtoField.uint8("fusewire.record.flags", "Flags", base.HEX),
  reserved = ProtoField.uint16("fusewire.record.reserved", "Reserved", base.HEX),
  body_len = ProtoField.uint32("fusewire.record.body_len", "Body length", base.DEC),
  index = ProtoField.uint64("fusewire.record.index", "Index", base.DEC),
  ciphertext = ProtoField.bytes("fusewire.record.ciphertext", "Ciphertext"),
  tag = ProtoField.bytes("fusewire.record.tag", "Tag"),
}
records.fields = { field.type, field.flags, field.reserved, field.body_len, field.index, field.ciphertext, field.tag }

local AEAD, PLAIN, BLOCKS, LONG = 0, 1, 2, 3
records.prefs.cipher = Pref.enum("Cipher of the records", AEAD,
  "How long a record is: tag of 16 bytes, no tag, no tag and blocks of 8 bytes, or tag of 32 bytes",
  { { 1, "AES-GCM, ChaCha20-Poly1305, AEGIS-128L", AEAD }, { 2, "none", PLAIN }, { 3, "PES, SAFER", BLOCKS },
    { 4, "AEGIS-256", LONG } }, false)

local tls = Dissector.get("tls")
local tcp = Dissector.get("tcp")

-- Lengths of ciphertext and tag.
local function lengths(body_len)
  if records.prefs.cipher == PLAIN then return body_len, 0 end
  if records.prefs.cipher == BLOCKS then return math.ceil(body_len / 8) * 8, 0 end
  if records.prefs.cipher == LONG then return body_len, 32 end
  return body_len, 16
end

local function is_tls(tvb, at)
  local kind = tvb(at, 1):uint()
  return kind >= 20 and kind <= 23
end

-- 1 to 3, then three bytes of zero. What is not there yet is taken for good.
local function is_record(tvb, at, len)
  local kind = tvb(at, 1):uint()
  if kind < 1 or kind > 3 then return false end
  for i = 1, math.min(3, len - at - 1) do
    if tvb(at + i, 1):uint() ~= 0 then return false end
  end
  return true
end

local function show_record(tvb, pinfo, tree, at, ciphertext_len, tag_len)
  local whole = HEADER_LEN + ciphertext_len + tag_len
  local kind, body_len, index = tvb(at, 1):uint(), tvb(at + 4, 4):uint(), tvb(at + 8, 8):uint64()
  local what = string.format("%s #%s, %d bytes", types[kind], tostring(index), body_len)
  local item = tree:add(records, tvb(at, whole), "Fusewire Record: " .. what)
  item:add(field.type, tvb(at, 1))
  item:add(field.flags, tvb(at + 1, 1))
  item:add(field.reserved, tvb(at + 2, 2))
  item:add(field.body_len, tvb(at + 4, 4))
  item:add(field.index, tvb(at + 8, 8))
  if ciphertext_len > 0 then item:add(field.ciphertext, tvb(at + HEADER_LEN, ciphertext_len)) end
  if tag_len > 0 then item:add(field.tag, tvb(at + HEADER_LEN + ciphertext_len, tag_len)) end
  pinfo.cols.protocol = "FUSEWIRE"
  pinfo.cols.info:append(" [" .. what .. "]")
end

-- A stream: TLS records, then records of ours. Their first bytes never are the same.
function records.dissector(tvb, pinfo, tree)
  local at, len = 0, tvb:len()
  while at < len do
    local head, whole, ciphertext_len, tag_len
    local of_tls = is_tls(tvb, at)
    if of_tls then
      head = 5
    elseif is_record(tvb, at, len) then
      head = HEADER_LEN
    else
      -- The middle of a record whose beginning was not captured.
      return at
    end
    if len - at >= head then
      if of_tls then
        whole = head + tvb(at + 3, 2):uint()
      else
        ciphertext_len, tag_len = lengths(tvb(at + 4, 4):uint())
        whole = head + ciphertext_len + tag_len
      end
    end
    if not whole or len - at < whole then
      pinfo.desegment_offset = at
      pinfo.desegment_len = whole and whole - (len - at) or DESEGMENT_ONE_MORE_SEGMENT
      return len
    end
    if of_tls then
      tls:call(tvb(at, whole):tvb(), pinfo, tree)
    else
      show_record(tvb, pinfo, tree, at, ciphertext_len, tag_len)
    end
    at = at + whole
  end
  return len
end

-- The sum of 16-bit words from `first` to `last`, exclusive, not folded; 2^53 is far away.
local function sum(bytes, first, last)
  local total = 0
  for i = first, last - 2, 2 do
    total = total + bytes:get_index(i) * 256 + bytes:get_index(i + 1)
  end
  if (last - first) % 2 == 1 then total = total + bytes:get_index(last - 1) * 256 end
  return total
end

-- The pseudo-header's sum is 5b78 and the length; a sum that verifies is a multiple of ffff.
local function verifies(total, len)
  return (total + 0x5b78 + math.floor(len / 65536) + len % 65536) % 65535 == 0
end

local function has_header(bytes, at, len)
  if len < 20 then return false end
  local offset = math.floor(bytes:get_index(at + 12) / 16) * 4
  return offset >= 20 and offset <= len
end

local function is_tpdu(bytes, at, len)
  return has_header(bytes, at, len) and verifies(sum(bytes, at, at + len), len)
end

local function same_ports(bytes, a, b)
  for i = 0, 3 do
    if bytes:get_index(a + i) ~= bytes:get_index(b + i) then return false end
  end
  return true
end

-- A capture on the machine that sends or receives may hold many datagrams of one size in one, as
-- segmentation and receive offload have them. Gives the size, or nil for what is no TPDU.
local function segment_len(bytes)
  local len = bytes:len()
  if not has_header(bytes, 0, len) then return nil end
  local total = 0
  for size = 2, len, 1 do
    if size % 2 == 0 then total = total + bytes:get_index(size - 2) * 256 + bytes:get_index(size - 1) end
    local here = total
    if size % 2 == 1 then here = total + bytes:get_index(size - 1) * 256 end
    if size >= 20 and verifies(here, size) then
      local rest = len - size
      if rest == 0 then return size end
      if rest >= 20 and same_ports(bytes, 0, size) and is_tpdu(bytes, size, math.min(size, rest)) then return size end
    end
  end
  return nil
end

local within_encapsulation = false

local function dissect_datagram(tvb, pinfo, tree, size)
  local len = tvb:len()
  local item = tree:add(encapsulation, tvb())
  item:add(segments_field, math.ceil(len / size)):set_generated()
  item:add(checksum_field, true):set_generated()
  within_encapsulation = true
  for at = 0, len - 1, size do
    tcp:call(tvb(at, math.min(size, len - at)):tvb(), pinfo, tree)
  end
  within_encapsulation = false
end

function encapsulation.dissector(tvb, pinfo, tree)
  local size = segment_len(tvb:bytes()) or tvb:len()
  if tvb:len() < 20 then return 0 end
  dissect_datagram(tvb, pinfo, tree, size)
  return tvb:len()
end

encapsulation:register_heuristic("udp", function(tvb, pinfo, tree)
  if tvb:len() < 20 or tvb:len() < tvb:reported_len() then return false end
  local size = segment_len(tvb:bytes())
  if not size then return false end
  dissect_datagram(tvb, pinfo, tree, size)
  return true
end)

local xtp_encapsulation = Proto("fusewire_xtp", "Fusewire XTP Encapsulation")
local packets_field = ProtoField.uint32("fusewire_xtp.packets", "Packets in this datagram")
xtp_encapsulation.fields = { packets_field }

-- XTP in UDP goes to Wireshark's own dissector, which is for IP's protocol 36. A TPDU of TCP is never taken for it, nor it
-- for one: TCP's data offset lies where dlen begins, which is no number of 16 million.
local xtp = DissectorTable.get("ip.proto"):get_dissector(36)
local XTP_HEADER_LEN = 32
local XTP_FORMATS = { [0] = true, true, true, true, [5] = true, [7] = true, [8] = true, [16] = true }

-- The packet's length, or nil for what is no packet with a right check.
local function xtp_len(bytes, at, len)
  if len - at < XTP_HEADER_LEN or bytes:get_index(at + 12) ~= 0 then return nil end
  local format = bytes:get_index(at + 11)
  if math.floor(format / 32) ~= 1 or not XTP_FORMATS[format % 32] then return nil end
  local dlen = 0
  for i = 13, 15 do dlen = dlen * 256 + bytes:get_index(at + i) end
  local whole = XTP_HEADER_LEN + dlen
  if at + whole > len then return nil end
  local nocheck = math.floor(bytes:get_index(at + 8) / 64) % 2 == 1
  if sum(bytes, at, at + (nocheck and XTP_HEADER_LEN or whole)) % 65535 ~= 0 then return nil end
  return whole
end

-- One packet, or several where the capture has several datagrams in one.
local function dissect_xtp(tvb, pinfo, tree)
  if not xtp or tvb:len() < tvb:reported_len() then return false end
  local bytes, len, at, lengths_of_all = tvb:bytes(), tvb:len(), 0, {}
  while at < len do
    local whole = xtp_len(bytes, at, len)
    if not whole then return false end
    table.insert(lengths_of_all, whole)
    at = at + whole
  end
  tree:add(xtp_encapsulation, tvb()):add(packets_field, #lengths_of_all):set_generated()
  at = 0
  for _, whole in ipairs(lengths_of_all) do
    xtp:call(tvb(at, whole):tvb(), pinfo, tree)
    at = at + whole
  end
  return len > 0
end

function xtp_encapsulation.dissector(tvb, pinfo, tree)
  return dissect_xtp(tvb, pinfo, tree) and tvb:len() or 0
end

xtp_encapsulation:register_heuristic("udp", dissect_xtp)
DissectorTable.get("udp.port"):add_for_decode_as(xtp_encapsulation)

-- Within the encapsulation every stream is ours, whatever its ports.
records:register_heuristic("tcp", function(tvb, pinfo, tree)
  if not within_encapsulation then return false end
  return records.dissector(tvb, pinfo, tree) > 0
end)

DissectorTable.get("udp.port"):add_for_decode_as(encapsulation)
DissectorTable.get("tcp.port"):add(TCP_PORT, records)
